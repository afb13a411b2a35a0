//! Checkpoints with recurrent layers and one thing wrong: the error names it, what was expected, and what was found. The
//! same checkpoint inside a multimodal one gives the same tokens.

use std::path::{Path, PathBuf};

use longwick::engine::{Engine, EngineOptions, GenerateParams, Request, RequestKind, RequestOutput};
use longwick::weights::Weights;
use serde_json::{Map, Value, json};

use crate::models::{copied, load_and_run};

const FIXTURE: &str = "qwen3_5";

fn config(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("config.json")).unwrap()).unwrap()
}

/// Changes the header of the tensors' file; their bytes stay.
fn with_header(folder: &Path, change: impl FnOnce(&mut Map<String, Value>)) {
    let path = folder.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let mut header = serde_json::from_slice(header).unwrap();
    change(&mut header);
    let header = serde_json::to_vec(&header).unwrap();
    std::fs::write(path, [&(header.len() as u64).to_le_bytes(), &header[..], data].concat()).unwrap();
}

fn refusal(change: impl FnOnce(&Path)) -> String {
    let folder = copied(FIXTURE);
    change(folder.path());
    load_and_run(folder.path()).expect_err("a damaged checkpoint loaded").to_string()
}

fn check(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

/// Every tensor of a recurrent layer, and the gated projection, with its shape.
const TENSORS: [(&str, &str); 10] = [
    ("0.linear_attn.in_proj_qkv.weight", "[216, 48]"),
    ("0.linear_attn.in_proj_z.weight", "[144, 48]"),
    ("2.linear_attn.in_proj_b.weight", "[6, 48]"),
    ("2.linear_attn.in_proj_a.weight", "[6, 48]"),
    ("4.linear_attn.conv1d.weight", "[216, 1, 3]"),
    ("4.linear_attn.A_log", "[6]"),
    ("0.linear_attn.dt_bias", "[6]"),
    ("2.linear_attn.norm.weight", "[24]"),
    ("4.linear_attn.out_proj.weight", "[48, 144]"),
    ("1.self_attn.q_proj.weight", "[240, 48]"),
];

#[test]
fn missing_misshapen_and_unknown_tensors_are_named() {
    load_and_run(copied(FIXTURE).path()).unwrap();
    for (tensor, shape) in TENSORS {
        let name = format!("model.layers.{tensor}");
        let missing = refusal(|folder| {
            with_header(folder, |header| {
                let entry = header.remove(&name).unwrap();
                header.insert("unused.weight".to_owned(), entry);
            });
        });
        check(&missing, &[&name]);
        let misshapen = refusal(|folder| {
            with_header(folder, |header| {
                let elements: u64 = header[&name]["shape"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|size| size.as_u64().unwrap())
                    .product();
                header[&name]["shape"] = json!([1, 1, elements]);
            });
        });
        check(&misshapen, &[&name, "[1, 1, ", &format!("expected {shape}")]);
        let unknown = refusal(|folder| {
            with_header(folder, |header| header[&name]["dtype"] = json!("F9_E4M4"));
        });
        check(&unknown, &[&name, "F9_E4M4"]);
    }
}

#[test]
fn settings_that_cannot_work_are_named() {
    let all_linear = json!(vec!["linear_attention"; 5]);
    let unknown = json!(["linear_attention", "full_attention", "conv", "full_attention", "linear_attention"]);
    for (field, value, parts) in [
        ("linear_num_value_heads", json!(7), &["linear_num_value_heads", "7 is not a multiple of the 3"][..]),
        ("linear_num_value_heads", json!(9), &["in_proj_qkv", "expected [288, 48]", "[216, 48]"]),
        ("linear_num_key_heads", json!(0), &["linear_num_key_heads", "0 is not at least 1"]),
        ("linear_num_key_heads", Value::Null, &["linear_num_key_heads", "is missing"]),
        ("linear_key_head_dim", json!(1_u64 << 40), &["linear_key_head_dim", "at most 512"]),
        ("linear_value_head_dim", json!(-1), &["linear_value_head_dim", "-1 is not a non-negative integer"]),
        ("linear_conv_kernel_dim", json!(1), &["linear_conv_kernel_dim", "at least 2"]),
        ("linear_conv_kernel_dim", json!(4), &["conv1d", "expected [216, 1, 4]", "[216, 1, 3]"]),
        ("layer_types", all_linear, &["layer_types", "none of 5 layers has attention"]),
        ("layer_types", unknown, &["layer_types", "\"conv\" is not supported"]),
        ("layer_types", json!(["full_attention"]), &["layer_types", "1 entries for 5 layers"]),
    ] {
        let message = refusal(|folder| {
            let mut config = config(folder);
            config[field] = value.clone();
            std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
        });
        check(&message, parts);
    }
    for factor in [json!(0), json!(0.01), json!(1.5), json!(-1), json!(1e300)] {
        let message = refusal(|folder| {
            let mut config = config(folder);
            config["rope_parameters"]["partial_rotary_factor"] = factor.clone();
            std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
        });
        check(&message, &["partial_rotary_factor", "of 40 elements of a head cannot rotate"]);
    }
}

fn generated(folder: &Path) -> (Vec<u32>, Vec<u32>) {
    let options = EngineOptions { kv_pool_bytes: Some(8 << 20), ..EngineOptions::default() };
    let mut engine = Engine::load(folder, options, &mut |_, _| {}).unwrap();
    let params =
        GenerateParams { max_tokens: 80, ignore_eos: true, logprobs: true, ..GenerateParams::default() };
    let prompt = (3..90).collect();
    match engine.run(Request::new(prompt, RequestKind::Generate(params))).unwrap().output {
        RequestOutput::Generated { token_ids, logprobs, .. } => {
            (token_ids, logprobs.into_iter().map(f32::to_bits).collect())
        }
        other => panic!("tokens were asked for, and {other:?} came"),
    }
}

/// Both prefixes, the vision tower and the prediction head left out, the layers' kinds by interval, the rotary part where
/// older configs have it.
#[test]
fn the_same_checkpoint_inside_a_multimodal_one() {
    let folder = copied(FIXTURE);
    let expected = generated(folder.path());
    for prefix in ["model.language_model.", "language_model.model."] {
        let folder = copied(FIXTURE);
        let mut text = config(folder.path());
        let rope = text.as_object_mut().unwrap().remove("rope_parameters").unwrap();
        text["partial_rotary_factor"] = rope["partial_rotary_factor"].clone();
        text["rope_parameters"] =
            json!({"rope_type": "default", "rope_theta": rope["rope_theta"], "mrope_section": [3, 3, 2]});
        text.as_object_mut().unwrap().remove("layer_types");
        text["full_attention_interval"] = json!(2);
        let outer = json!({"model_type": "qwen3_5", "text_config": text, "vision_config": {"depth": 1}});
        std::fs::write(folder.path().join("config.json"), outer.to_string()).unwrap();
        with_header(folder.path(), |header| {
            let names: Vec<String> =
                header.keys().filter(|name| name.starts_with("model.")).cloned().collect();
            for name in names {
                let entry = header.remove(&name).unwrap();
                header.insert(format!("{prefix}{}", &name["model.".len()..]), entry);
            }
            let nothing = json!({"dtype": "F32", "shape": [0], "data_offsets": [0, 0]});
            header.insert("model.visual.blocks.0.norm1.weight".to_owned(), nothing.clone());
            header.insert("mtp.norm.weight".to_owned(), nothing);
        });
        assert!(generated(folder.path()) == expected, "{prefix}");
    }
}

/// The same checkpoint as a GGUF file.
fn gguf() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny").join(FIXTURE).join("model-bf16.gguf")
}

/// It with `change` made to its bytes.
fn gguf_refusal(change: impl FnOnce(&mut Vec<u8>)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let mut bytes = std::fs::read(gguf()).unwrap();
    change(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    load_and_run(&path).expect_err("a damaged file loaded").to_string()
}

/// Where the value of a key begins, its type before it.
fn value_of(bytes: &[u8], key: &str) -> usize {
    let name = [&(key.len() as u64).to_le_bytes(), key.as_bytes()].concat();
    let found = bytes.windows(name.len()).position(|window| window == name).unwrap();
    found + name.len() + 4
}

#[test]
fn gguf_settings_that_cannot_work_are_named() {
    for (key, value, parts) in [
        ("ssm.inner_size", 145, &["qwen35.ssm.inner_size", "145 is no multiple of the 6 value heads"][..]),
        ("ssm.time_step_rank", 0, &["qwen35.ssm.inner_size", "0 value heads"]),
        ("ssm.group_count", 4, &["linear_num_value_heads", "6 is not a multiple of the 4"]),
        ("ssm.group_count", 0, &["linear_num_key_heads", "0 is not at least 1"]),
        ("ssm.state_size", 13, &["attn_qkv", "expected [222, 48]", "[216, 48]"]),
        ("ssm.conv_kernel", 4, &["ssm_conv1d", "expected [216, 1, 4]", "[216, 3]"]),
        ("nextn_predict_layers", 6, &["num_hidden_layers"]),
        ("nextn_predict_layers", 7, &["num_hidden_layers"]),
        ("block_count", 5, &["qwen35.attention.recurrent_layers", "6 entries for 5 layers"]),
        ("rope.dimension_count", 41, &["of 40 elements of a head cannot rotate"]),
    ] {
        let message = gguf_refusal(|bytes| {
            let at = value_of(bytes, &format!("qwen35.{key}"));
            bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        });
        check(&message, parts);
    }
}

#[test]
fn decay_rates_that_grow_are_refused() {
    let weights = Weights::open(&gguf()).unwrap();
    let (_, tensor) = weights.tensors().find(|(_, tensor)| tensor.name == "blk.2.ssm_a").unwrap();
    for rate in [0.5_f32, f32::NAN] {
        let message = gguf_refusal(|bytes| {
            let at = tensor.range.start + 4 * 3;
            bytes[at..at + 4].copy_from_slice(&rate.to_le_bytes());
        });
        check(&message, &["ssm_a", &format!("{rate} in head 3"), "at most 0"]);
    }
}
