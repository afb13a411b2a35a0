//! Checkpoints of each family with one thing wrong: the error names it, what was expected, and what was found.

use std::num::NonZeroUsize;
use std::path::Path;

use longwick::engine::{Engine, EngineOptions};
use serde_json::{Map, Value, json};

/// Every family.
const OWN: [&str; 8] =
    ["llama", "qwen3", "qwen3_moe", "gpt_oss", "gemma3", "gemma4", "gemma4_keys_are_values", "qwen3_5"];

/// A copy of a fixture, of which one file is damaged.
struct Copy {
    folder: tempfile::TempDir,
    header: Map<String, Value>,
    data: Vec<u8>,
    config: Value,
}

impl Copy {
    fn new(name: &str) -> Self {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny").join(name);
        let bytes = std::fs::read(fixture.join("model.safetensors")).unwrap();
        let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
        let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
        let config = std::fs::read_to_string(fixture.join("config.json")).unwrap();
        let copy = Self {
            folder: tempfile::tempdir().unwrap(),
            header: serde_json::from_slice(header).unwrap(),
            data: data.to_vec(),
            config: serde_json::from_str(&config).unwrap(),
        };
        copy.write_config(&copy.config);
        copy.write_header(&copy.header);
        copy
    }

    fn write_header(&self, header: &Map<String, Value>) {
        let header = serde_json::to_vec(header).unwrap();
        let bytes = [&(header.len() as u64).to_le_bytes(), &header[..], &self.data].concat();
        std::fs::write(self.folder.path().join("model.safetensors"), bytes).unwrap();
    }

    fn write_config(&self, config: &Value) {
        std::fs::write(self.folder.path().join("config.json"), config.to_string()).unwrap();
    }

    /// Every tensor's name.
    fn names(&self) -> Vec<String> {
        self.header.keys().filter(|name| *name != "__metadata__").cloned().collect()
    }

    fn error(&self) -> String {
        let options = EngineOptions {
            threads: NonZeroUsize::new(1),
            kv_pool_bytes: Some(8 << 20),
            ..EngineOptions::default()
        };
        match Engine::load(self.folder.path(), options, &mut |_, _| {}) {
            Ok(_) => "it loads".to_owned(),
            Err(error) => error.to_string(),
        }
    }
}

fn shape(entry: &Value) -> Vec<usize> {
    serde_json::from_value(entry["shape"].clone()).unwrap()
}

#[test]
fn a_missing_tensor_is_named() {
    for name in OWN {
        let copy = Copy::new(name);
        assert_eq!(copy.error(), "it loads", "{name}");
        for tensor in copy.names() {
            let mut header = copy.header.clone();
            // It stays in the file, under a name that means nothing.
            let entry = header.remove(&tensor).unwrap();
            header.insert("unused.weight".to_owned(), entry);
            copy.write_header(&header);
            let error = copy.error();
            assert!(error.contains(&format!("{tensor:?}")), "{name}, {tensor} missing: {error}");
        }
    }
}

#[test]
fn a_wrong_shape_is_named_with_both() {
    for name in OWN {
        let copy = Copy::new(name);
        for tensor in copy.names() {
            let mut header = copy.header.clone();
            let right = shape(&header[&tensor]);
            // As many elements, so that the file itself is in order.
            let wrong = match right[..] {
                [rows, columns] if rows != columns => vec![columns, rows],
                _ => vec![1, right.iter().product()],
            };
            header[&tensor]["shape"] = json!(wrong);
            copy.write_header(&header);
            let error = copy.error();
            for part in [tensor.clone(), format!("shape {wrong:?}"), format!("expected {right:?}")] {
                assert!(error.contains(&part), "{name}, {tensor}: no {part:?} in {error}");
            }
        }
    }
}

#[test]
fn an_unknown_dtype_is_named() {
    for name in OWN {
        let copy = Copy::new(name);
        for tensor in copy.names() {
            let mut header = copy.header.clone();
            header[&tensor]["dtype"] = json!("F9_E4M4");
            copy.write_header(&header);
            let error = copy.error();
            for part in [tensor.as_str(), "F9_E4M4"] {
                assert!(error.contains(part), "{name}, {tensor}: no {part:?} in {error}");
            }
        }
    }
}

/// A config whose key heads no query heads share evenly, or whose heads are not those of the tensors.
#[test]
fn heads_that_do_not_fit_are_named() {
    for name in OWN {
        let copy = Copy::new(name);
        let write = |field: &str, value: Value| {
            let mut config = copy.config.clone();
            let nested = config.get("text_config").is_some();
            let text = if nested { &mut config["text_config"] } else { &mut config };
            text[field] = value;
            copy.write_config(&config);
            copy.error()
        };
        let text = copy.config.get("text_config").unwrap_or(&copy.config);
        let heads = text["num_attention_heads"].as_u64().unwrap();
        let error = write("num_key_value_heads", json!(heads + 1));
        for part in ["num_key_value_heads".to_owned(), format!("{}: {heads} query heads", heads + 1)] {
            assert!(error.contains(&part), "{name}: no {part:?} in {error}");
        }
        let twice = write("num_attention_heads", json!(2 * heads));
        for part in ["self_attn.", "_proj", "expected ["] {
            assert!(twice.contains(part), "{name}: no {part:?} in {twice}");
        }
        for head_dim in [12, 1_024] {
            let error = write("head_dim", json!(head_dim));
            assert!(error.contains("head_dim") && error.contains(&head_dim.to_string()), "{name}: {error}");
        }
    }
}

/// Settings of Gemma 4 that cannot work, or that are not built.
#[test]
fn settings_of_gemma4_that_cannot_work_are_named() {
    let copy = Copy::new("gemma4");
    let two_kinds = json!({"1": {"head_dim": 256}, "6": {"head_dim": 128}});
    for (field, value, parts) in [
        ("enable_moe_block", json!(true), ["enable_moe_block", "not built"]),
        ("use_bidirectional_attention", json!("all"), ["use_bidirectional_attention", "\"all\""]),
        ("num_kv_shared_layers", json!(7), ["num_kv_shared_layers", "7 of 7 layers"]),
        ("num_kv_shared_layers", json!(6), ["num_kv_shared_layers", "no full layer"]),
        ("num_kv_shared_layers", json!(1_u64 << 40), ["num_kv_shared_layers", "layers"]),
        ("vocab_size_per_layer_input", json!(258), ["vocab_size_per_layer_input", "below vocab_size 259"]),
        ("hidden_size_per_layer_input", json!(1_u64 << 40), ["hidden_size_per_layer_input", "1099511627776"]),
        ("hidden_size_per_layer_input", json!(16), ["embed_tokens_per_layer", "expected [271, 112]"]),
        ("per_layer_config", two_kinds, ["per_layer_config", "layer 6"]),
        ("per_layer_config", json!({"0": {"head_dim": 8}}), ["per_layer_config", "layer 0"]),
        ("per_layer_config", json!({"6": {"window": 8}}), ["window", "not supported"]),
        (
            "per_layer_config",
            json!({"1": {"head_dim": 1024}, "6": {"head_dim": 1024}}),
            ["global_head_dim", "1024"],
        ),
        (
            "per_layer_config",
            json!({"1": {"num_key_value_heads": 2}, "6": {"num_key_value_heads": 2}}),
            ["num_global_key_value_heads", "3 query heads"],
        ),
        ("use_double_wide_mlp", json!(false), ["mlp.gate_proj", "expected [48, 32]"]),
        ("use_double_wide_mlp", json!("yes"), ["use_double_wide_mlp", "\"yes\""]),
        ("attention_k_eq_v", json!(3), ["attention_k_eq_v", "3"]),
    ] {
        let mut config = copy.config.clone();
        config[field] = value.clone();
        copy.write_config(&config);
        let error = copy.error();
        for part in parts {
            assert!(error.contains(part), "{field} = {value}: no {part:?} in {error}");
        }
    }
    let mut config = copy.config.clone();
    config["layer_types"][6] = json!("sliding_attention");
    config["per_layer_config"] = json!({"1": {"head_dim": 256}});
    copy.write_config(&config);
    assert!(copy.error().contains("layer_types: layer 6 slides"), "{}", copy.error());
    // Gemma 4's rotary settings, one of them wrong.
    for (field, value) in
        [("partial_rotary_factor", json!(1.5)), ("rope_type", json!("axial")), ("factor", json!(0))]
    {
        let mut config = copy.config.clone();
        config["rope_parameters"]["full_attention"][field] = value.clone();
        copy.write_config(&config);
        let error = copy.error();
        assert!(error.contains(field) && error.contains("config.json"), "{field} = {value}: {error}");
    }
}
