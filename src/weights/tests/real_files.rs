//! Real models and the tiny reference checkpoints, where they are there.
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use super::super::{ModelMetadata, WeightDtype, Weights, WeightsError};

fn shared(part: &str) -> Option<PathBuf> {
    let root = std::env::var_os("LONGWICK_SHARED_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from);
    present(root.join(part))
}

fn asset(name: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("LONGWICK_TEST_ASSETS").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("LONGWICK_CACHE").map(PathBuf::from);
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/longwick"));
        Some(cache.or_else(home)?.join("assets"))
    });
    present(folder?.join(name))
}

fn present(path: PathBuf) -> Option<PathBuf> {
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: {} is absent", path.display());
    None
}

fn dtype_counts(weights: &Weights) -> HashMap<WeightDtype, usize> {
    let mut counts = HashMap::new();
    for name in weights.tensor_names() {
        *counts.entry(weights.get(&name).unwrap().unwrap().dtype).or_default() += 1;
    }
    counts
}

#[test]
fn smollm2_gguf() {
    let Some(path) = asset("SmolLM2-135M-Instruct.Q4_1.gguf") else {
        return;
    };
    let weights = Weights::open(&path).unwrap();
    let expected = HashMap::from([(WeightDtype::Q4_1, 210), (WeightDtype::F32, 61), (WeightDtype::Q8_0, 1)]);
    assert_eq!(dtype_counts(&weights), expected);
    assert!(weights.tensor_names().iter().all(|name| name.starts_with("model.")));
    weights.require("model.embed_tokens.weight", &[49152, 576]).unwrap();
    weights.require("model.layers.29.mlp.down_proj.weight", &[576, 1536]).unwrap();
    weights.require("model.layers.0.post_attention_layernorm.weight", &[576]).unwrap();
    let ModelMetadata::Gguf(metadata) = weights.metadata() else { panic!("not GGUF") };
    assert_eq!(metadata.u64("llama.context_length").unwrap(), Some(8192));
    let tokens = metadata.strings("tokenizer.ggml.tokens").unwrap().unwrap();
    assert_eq!((tokens.len(), tokens[1]), (49152, "<|im_start|>"));
    assert_eq!(metadata.i64s("tokenizer.ggml.token_type").unwrap().unwrap()[0], 3);
}

#[test]
fn gemma3_gguf() {
    let Some(path) = asset("gemma-3-270m-q4_k_m.gguf") else {
        return;
    };
    let weights = Weights::open(&path).unwrap();
    let expected = HashMap::from([
        (WeightDtype::F32, 109),
        (WeightDtype::Q5_0, 81),
        (WeightDtype::Q4K, 27),
        (WeightDtype::Q8_0, 10),
        (WeightDtype::Q6K, 9),
    ]);
    assert_eq!(dtype_counts(&weights), expected);
    assert!(weights.tensor_names().iter().all(|name| name.starts_with("model.")));
    for norm in ["input", "post_attention", "pre_feedforward", "post_feedforward"] {
        weights.require(&format!("model.layers.17.{norm}_layernorm.weight"), &[640]).unwrap();
    }
    weights.require("model.layers.17.self_attn.q_norm.weight", &[256]).unwrap();
    weights.require("model.layers.0.self_attn.q_proj.weight", &[1024, 640]).unwrap();
    let ModelMetadata::Gguf(metadata) = weights.metadata() else { panic!("not GGUF") };
    let scores = metadata.f32s("tokenizer.ggml.scores").unwrap().unwrap();
    assert_eq!((scores.len(), scores[0]), (262_144, -1000.0));
}

#[test]
fn tiny_checkpoints() {
    for (family, tensors, unsupported) in [
        ("qwen3", 35, 0),
        ("gemma3", 93, 0),
        ("gemma3_rope_linear", 80, 0),
        ("qwen3_moe", 102, 0),
        ("gpt_oss", 79, 16),
        ("gemma4", 135, 0),
    ] {
        let Some(path) = shared(&format!("tiny/{family}")) else {
            return;
        };
        let weights = Weights::open(&path).unwrap();
        let names = weights.tensor_names();
        assert_eq!(names.len(), tensors, "{family}");
        let refused = names.iter().filter(|name| match weights.get(name) {
            Ok(view) => {
                assert_eq!(view.unwrap().dtype, WeightDtype::Bf16);
                false
            }
            // Parts of MXFP4, which are read as bytes.
            Err(WeightsError::UnsupportedDtype { dtype, .. }) => dtype == "U8",
            Err(error) => panic!("{error}"),
        });
        assert_eq!(refused.count(), unsupported, "{family}");
        assert!(weights.skipped().is_empty());
        let ModelMetadata::HfFolder { config, .. } = weights.metadata() else { panic!("not a folder") };
        let hidden = config["hidden_size"].as_u64().unwrap() as usize;
        weights.require("model.norm.weight", &[hidden]).unwrap();
    }
}
