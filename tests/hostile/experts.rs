//! Checkpoints with experts whose tensors do not fit the config: the error names tensor, expected and found.

use std::path::Path;

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::{Value, json};

use crate::models::{copied, fixture_file, load_and_run};

/// Loads a copy of the fixture after `change`, and returns what the error says.
fn refusal(fixture: &str, change: impl FnOnce(&Path)) -> String {
    let folder = copied(fixture);
    load_and_run(folder.path()).unwrap();
    change(folder.path());
    let error = load_and_run(folder.path()).expect_err("a damaged checkpoint loaded");
    error.to_string()
}

fn check(fixture: &str, change: impl FnOnce(&Path), parts: &[&str]) {
    let message = refusal(fixture, change);
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

fn set(folder: &Path, field: &str, value: Value) {
    let path = folder.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config[field] = value;
    std::fs::write(&path, config.to_string()).unwrap();
}

/// Writes the tensors again, each as `change` makes it: `None` leaves it out.
fn rewrite(folder: &Path, change: impl Fn(&str, Dtype, Vec<usize>) -> Option<(Dtype, Vec<usize>)>) {
    let path = folder.join("model.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let mut data: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    for (name, view) in tensors.tensors() {
        if let Some((dtype, shape)) = change(&name, view.dtype(), view.shape().to_vec()) {
            let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
            let bytes = view.data().iter().copied().cycle().take(bytes).collect();
            data.push((name, dtype, shape, bytes));
        }
    }
    let views = data.iter().map(|(name, dtype, shape, bytes)| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
}

fn without(tensor: &'static str) -> impl Fn(&Path) {
    move |folder| rewrite(folder, |name, dtype, shape| (name != tensor).then_some((dtype, shape)))
}

fn with_shape(tensor: &'static str, shape: &'static [usize]) -> impl Fn(&Path) {
    move |folder| {
        rewrite(folder, |name, dtype, old| Some((dtype, if name == tensor { shape.to_vec() } else { old })));
    }
}

fn with_dtype(tensor: &'static str, dtype: Dtype) -> impl Fn(&Path) {
    move |folder| {
        rewrite(folder, |name, old, shape| Some((if name == tensor { dtype } else { old }, shape)));
    }
}

#[test]
fn a_missing_tensor_is_named() {
    for (fixture, tensor) in [
        ("qwen3_moe", "model.layers.2.mlp.experts.3.up_proj.weight"),
        ("qwen3_moe", "model.layers.0.mlp.gate.weight"),
        ("qwen3_moe", "model.layers.1.mlp.down_proj.weight"),
        ("gpt_oss", "model.layers.1.mlp.experts.gate_up_proj_blocks"),
        ("gpt_oss", "model.layers.1.mlp.experts.down_proj_scales"),
        ("gpt_oss", "model.layers.2.mlp.experts.down_proj_bias"),
        ("gpt_oss", "model.layers.0.mlp.router.bias"),
        ("gpt_oss", "model.layers.0.self_attn.sinks"),
        ("gpt_oss", "model.layers.0.self_attn.o_proj.bias"),
    ] {
        check(fixture, without(tensor), &[tensor, "missing"]);
    }
}

#[test]
fn another_shape_is_named_with_the_one_expected() {
    let experts = "model.layers.0.mlp.experts";
    let down = "model.layers.0.mlp.experts.4.down_proj.weight";
    check("qwen3_moe", with_shape(down, &[48, 41]), &[down, "[48, 41]", "[48, 40]"]);
    let blocks = "model.layers.0.mlp.experts.gate_up_proj_blocks";
    check("gpt_oss", with_shape(blocks, &[6, 192, 2, 8]), &[blocks, "[6, 192, 2, 8]", "[6, 192, 2, 16]"]);
    let scales = "model.layers.0.mlp.experts.down_proj_scales";
    check("gpt_oss", with_shape(scales, &[6, 64, 2]), &[scales, "[6, 64, 2]", "[6, 64, 3]"]);
    let sinks = "model.layers.0.self_attn.sinks";
    check("gpt_oss", with_shape(sinks, &[5]), &[sinks, "[5]", "[6]"]);
    // Rows that are no whole blocks.
    let narrow = |folder: &Path| set(folder, "intermediate_size", json!(100));
    check("gpt_oss", narrow, &[experts, "[6, 192]", "[6, 200]"]);
}

#[test]
fn another_number_of_experts_is_refused() {
    for (fixture, field, router, found) in [
        ("qwen3_moe", "num_local_experts", "model.layers.0.mlp.gate.weight", "[5, 48]"),
        ("gpt_oss", "num_local_experts", "model.layers.0.mlp.router.weight", "[6, 64]"),
    ] {
        for experts in [4, 7] {
            let change = |folder: &Path| set(folder, field, json!(experts));
            check(fixture, change, &[router, found, &format!("[{experts}, ")]);
        }
    }
    // A router that agrees with the config, over another number of experts.
    let bias = "model.layers.0.mlp.experts.gate_up_proj_bias";
    check("gpt_oss", with_shape(bias, &[5, 192]), &[bias, "[5, 192]", "[6, 192]"]);
    for (fixture, found) in [("qwen3_moe", "6 of 5 experts"), ("gpt_oss", "6 of 5 experts")] {
        let change = |folder: &Path| {
            set(folder, "num_experts_per_tok", json!(6));
            set(folder, "num_local_experts", json!(5));
        };
        check(fixture, change, &["num_experts_per_tok", found]);
    }
    let none = |folder: &Path| set(folder, "num_experts_per_tok", json!(0));
    check("qwen3_moe", none, &["num_experts_per_tok", "0 of 5 experts"]);
}

#[test]
fn another_dtype_is_named() {
    let up = "model.layers.0.mlp.experts.0.up_proj.weight";
    check("qwen3_moe", with_dtype(up, Dtype::F8_E4M3), &[up, "F8_E4M3"]);
    let blocks = "model.layers.0.mlp.experts.down_proj_blocks";
    check("gpt_oss", with_dtype(blocks, Dtype::BF16), &[blocks, "BF16", "expected U8"]);
    let bias = "model.layers.0.mlp.experts.down_proj_bias";
    check("gpt_oss", with_dtype(bias, Dtype::U8), &[bias, "U8"]);
}

#[test]
fn settings_that_cannot_work_are_refused() {
    for (fixture, field, value, reason) in [
        ("qwen3_moe", "decoder_sparse_step", json!(0), "0 is not a number of layers"),
        ("qwen3_moe", "mlp_only_layers", json!([-1]), "not a list of layers"),
        ("qwen3_moe", "moe_intermediate_size", json!(0), "0 is not a size"),
        ("gpt_oss", "swiglu_limit", json!(-7.0), "-7 is not positive"),
        ("gpt_oss", "quantization_config", json!({"quant_method": "gptq"}), "gptq"),
        ("qwen3_moe", "quantization_config", json!({"quant_method": "mxfp4"}), "only gpt-oss"),
    ] {
        check(fixture, |folder| set(folder, field, value), &[field, reason]);
    }
    let yarn = |folder: &Path| set(folder, "rope_scaling", json!({"rope_type": "yarn", "factor": 8.0}));
    check("gpt_oss", yarn, &["original_max_position_embeddings", "missing"]);
}

/// In GGUF all experts of a layer are one tensor, and their number is a key of the file.
#[test]
fn another_number_of_experts_in_gguf_is_refused() {
    for (fixture, key, experts) in
        [("qwen3_moe_gguf", "qwen3moe.expert_count", 5_u32), ("gpt_oss", "gpt-oss.expert_count", 6)]
    {
        let source = fixture_file(fixture, "model.gguf");
        let valid = std::fs::read(&source).unwrap();
        // The key, its type (4: u32), its value.
        let marker = [key.as_bytes(), &4_u32.to_le_bytes(), &experts.to_le_bytes()].concat();
        let at = valid.windows(marker.len()).position(|window| window == marker).expect("the key");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        for (count, parts) in [
            (experts + 2, vec!["ffn_gate_inp".to_owned(), format!("expected [{}, ", experts + 2)]),
            (experts - 1, vec!["ffn_gate_inp".to_owned(), format!("expected [{}, ", experts - 1)]),
            (1, vec!["num_experts_per_tok".to_owned(), "of 1 experts".to_owned()]),
            (0, vec!["num_experts".to_owned(), "0 is not a size".to_owned()]),
        ] {
            let mut damaged = valid.clone();
            damaged[at + marker.len() - 4..at + marker.len()].copy_from_slice(&count.to_le_bytes());
            std::fs::write(&path, damaged).unwrap();
            let message = load_and_run(&path).expect_err("another number of experts loaded").to_string();
            for part in &parts {
                assert!(
                    message.contains(part),
                    "{fixture}, {count} experts: {message:?} does not say {part:?}"
                );
            }
        }
    }
}
