//! The same settings as older and newer configs write them give the same bits: `rope_theta` and `rope_scaling`, or
//! `rope_parameters`, by kind of layer where the family has two; kinds of layers by pattern or one by one; heads of Gemma
//! 4's full layers in fields of their own or layer by layer.

use std::path::Path;

use serde_json::{Map, Value, json};

use crate::assets;
use crate::checkpoint::{Checkpoint, every_checkpoint, every_logit, rewritten};

type Config = Map<String, Value>;

fn take(config: &mut Config, field: &str) -> Option<Value> {
    config.remove(field).filter(|value| !value.is_null())
}

/// The settings of one kind of layer, however the config has them.
fn flat(config: &mut Config) -> Config {
    let nested = take(config, "rope_parameters").or_else(|| take(config, "rope_scaling"));
    let mut rope = match nested {
        Some(Value::Object(rope)) => rope,
        Some(other) => panic!("{other}"),
        None => Config::from_iter([("rope_type".to_owned(), json!("default"))]),
    };
    for field in ["rope_theta", "partial_rotary_factor"] {
        if let Some(value) = take(config, field) {
            rope.entry(field).or_insert(value);
        }
    }
    rope
}

/// `rope_theta` beside a `rope_scaling` that is null where nothing is stretched; the kind is called `kind`.
fn write_old(config: &mut Config, mut rope: Config, kind: &str) {
    for field in ["rope_theta", "partial_rotary_factor"] {
        if let Some(value) = rope.remove(field) {
            config.insert(field.to_owned(), value);
        }
    }
    let rope_type = rope.remove("rope_type").unwrap();
    let scaling = match rope_type == "default" {
        true => Value::Null,
        false => {
            rope.insert(kind.to_owned(), rope_type);
            Value::Object(rope)
        }
    };
    config.insert("rope_scaling".to_owned(), scaling);
}

/// The settings of Gemma 3's full and sliding layers.
fn gemma3_ropes(config: &mut Config) -> (Config, Config) {
    match take(config, "rope_parameters") {
        Some(both) => {
            let of = |kind: &str| both[kind].as_object().unwrap().clone();
            (of("full_attention"), of("sliding_attention"))
        }
        None => {
            let theta = take(config, "rope_local_base_freq").unwrap();
            let sliding = json!({"rope_type": "default", "rope_theta": theta});
            (flat(config), sliding.as_object().unwrap().clone())
        }
    }
}

const PERIOD: usize = 6;

fn layer_types(config: &mut Config) -> Value {
    let layers = config["num_hidden_layers"].as_u64().unwrap() as usize;
    let kinds = (1..=layers).map(|layer| match layer.is_multiple_of(PERIOD) {
        true => "full_attention",
        false => "sliding_attention",
    });
    let kinds = json!(kinds.collect::<Vec<_>>());
    for field in ["sliding_window_pattern", "_sliding_window_pattern"] {
        let period = take(config, field);
        assert!(period.is_none_or(|period| period == PERIOD));
    }
    let written = take(config, "layer_types");
    assert!(written.is_none_or(|written| written == kinds), "a pattern of another period");
    kinds
}

/// What transformers takes for Gemma 4's layers where a config does not say.
fn gemma4_default_ropes() -> Value {
    json!({
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1_000_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    })
}

/// Gemma 4 never had the older rope fields: its older config says nothing of its ropes, and has the heads of full layers
/// in fields of their own.
fn gemma4(config: &mut Config, is_new: bool) {
    let ropes = take(config, "rope_parameters").unwrap_or_else(gemma4_default_ropes);
    assert_eq!(ropes, gemma4_default_ropes());
    let kinds = take(config, "layer_types");
    let layers = config["num_hidden_layers"].as_u64().unwrap() as usize;
    let is_full = |layer: usize| match &kinds {
        Some(kinds) => kinds[layer] == "full_attention",
        None => (layer + 1).is_multiple_of(PERIOD) || layer + 1 == layers,
    };
    let by_layer = take(config, "per_layer_config");
    let mut heads = Config::new();
    for (field, own) in
        [("head_dim", "global_head_dim"), ("num_key_value_heads", "num_global_key_value_heads")]
    {
        let of_layer =
            by_layer.as_ref().and_then(|layers| layers.as_object()?.values().next()?.get(field).cloned());
        let of_full = take(config, own).or(of_layer);
        heads.extend(of_full.map(|value| (field.to_owned(), value)));
    }
    if is_new {
        config.insert("rope_parameters".to_owned(), ropes);
        let full = (0..layers).filter(|&layer| is_full(layer));
        let by_layer: Config = full.map(|layer| (layer.to_string(), json!(heads))).collect();
        config.insert("per_layer_config".to_owned(), json!(by_layer));
        let kinds =
            (0..layers).map(|layer| if is_full(layer) { "full_attention" } else { "sliding_attention" });
        config.insert("layer_types".to_owned(), json!(kinds.collect::<Vec<_>>()));
    } else {
        config.extend(kinds.map(|kinds| ("layer_types".to_owned(), kinds)));
        for (field, own) in
            [("head_dim", "global_head_dim"), ("num_key_value_heads", "num_global_key_value_heads")]
        {
            config.insert(own.to_owned(), heads.get(field).cloned().unwrap_or(Value::Null));
        }
    }
}

fn old(config: &mut Config, kind: &str) {
    match config["model_type"].as_str().unwrap() {
        "gemma3_text" => {
            let (full, mut sliding) = gemma3_ropes(config);
            write_old(config, full, kind);
            config.insert("rope_local_base_freq".to_owned(), sliding.remove("rope_theta").unwrap());
            layer_types(config);
            config.insert("sliding_window_pattern".to_owned(), json!(PERIOD));
        }
        "gemma4_text" => gemma4(config, false),
        _ => {
            let rope = flat(config);
            write_old(config, rope, kind);
        }
    }
    assert!(!config.contains_key("rope_parameters"));
}

fn new(config: &mut Config) {
    let rope = match config["model_type"].as_str().unwrap() {
        "gemma3_text" => {
            let (full, sliding) = gemma3_ropes(config);
            let kinds = layer_types(config);
            config.insert("layer_types".to_owned(), kinds);
            json!({"full_attention": full, "sliding_attention": sliding})
        }
        "gemma4_text" => return gemma4(config, true),
        _ => json!(flat(config)),
    };
    config.insert("rope_parameters".to_owned(), rope);
    assert!(!config.contains_key("rope_theta") && !config.contains_key("rope_scaling"));
}

/// Also inside a multimodal config, where the text model's fields are nested.
fn check(dialect: impl Fn(&mut Config)) {
    for path in every_checkpoint() {
        let expected = every_logit(&mut assets::load(&path, crate::options(16 << 20)));
        for is_nested in [false, true] {
            let write = |checkpoint: &mut Checkpoint, folder: &Path| {
                dialect(&mut checkpoint.config);
                let text = Value::Object(checkpoint.config.clone());
                let config =
                    if is_nested { json!({"model_type": "outer", "text_config": text}) } else { text };
                checkpoint.write(folder, &config, 1);
            };
            let (found, _) = rewritten(&mut Checkpoint::read(&path), write);
            assert!(found == expected, "{}: other bits, nested: {is_nested}", path.display());
        }
    }
}

#[test]
fn rope_theta_and_rope_scaling() {
    check(|config| old(config, "rope_type"));
}

/// As the first configs with stretched contexts called it.
#[test]
fn rope_scaling_with_a_type() {
    check(|config| old(config, "type"));
}

#[test]
fn rope_parameters() {
    check(new);
}

/// From one to the other and back again: neither is the dialect that the files happen to have.
#[test]
fn there_and_back() {
    check(|config| {
        new(config);
        old(config, "rope_type");
        new(config);
    });
    check(|config| {
        old(config, "rope_type");
        new(config);
        old(config, "type");
    });
}

/// The tests above change every config that there is.
#[test]
fn every_checkpoint_changes() {
    for path in every_checkpoint() {
        let original = Checkpoint::read(&path).config;
        let (mut older, mut newer) = (original.clone(), original.clone());
        old(&mut older, "rope_type");
        new(&mut newer);
        assert!(older != newer && (older != original || newer != original), "{}", path.display());
    }
}
