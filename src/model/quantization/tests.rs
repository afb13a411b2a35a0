use super::*;
use std::path::{Path, PathBuf};

/// Ends of the names of matrices that stay as they are in every model, by what they are.
const KEPT: [&str; 9] = [
    "embed_tokens.weight",
    "embed_tokens_per_layer.weight",
    "per_layer_model_projection.weight",
    "mlp.gate.weight",
    "mlp.router.weight",
    "linear_attn.in_proj_a.weight",
    "linear_attn.in_proj_b.weight",
    "linear_attn.conv1d.weight",
    "lm_head.weight",
];
/// Of MXFP4, vectors of experts that lie in one tensor, and a part of Qwen3.5's layer behind the last.
const PARTS: [&str; 4] = ["_scales", "_bias", ".bias", ".nextn.eh_proj.weight"];

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root).unwrap() {
        let folder = folder.unwrap().path();
        let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        found
            .extend(files.filter(|file| file.extension().is_some_and(|e| e == "gguf" || e == "safetensors")));
    }
    found
}

/// A family whose projections have a new name would stay as it is without anyone's decision.
#[test]
fn every_matrix_of_every_family_is_a_projection_or_kept_by_name() {
    let fixtures = fixtures();
    assert!(fixtures.len() > 10, "{fixtures:?}");
    for file in fixtures {
        let weights = Weights::open(&file).unwrap();
        let mut projections = 0;
        for (name, tensor) in weights.tensors().filter(|(_, tensor)| tensor.shape.len() > 1) {
            let kept = KEPT.iter().chain(&PARTS).any(|end| name.ends_with(end));
            assert!(is_projection(name, usize::MAX) != kept, "{}: {name} {:?}", file.display(), tensor.shape);
            projections += usize::from(is_projection(name, usize::MAX));
        }
        assert!(projections > 0, "{}", file.display());
    }
}

#[test]
fn layers_that_are_not_loaded_are_not_counted() {
    assert!(is_projection("model.layers.3.mlp.up_proj.weight", 4));
    assert!(!is_projection("model.layers.4.mlp.up_proj.weight", 4));
    assert!(!is_projection("model.layers.mlp.up_proj.weight", 4));
}

#[test]
fn the_vocabulary_gets_six_bits_at_least() {
    for format in Quantization::ALL {
        let expected = if format == Quantization::Q8_0 { Quantization::Q8_0 } else { Quantization::Q6K };
        assert_eq!(vocabulary_format(format, 512), expected);
        assert_eq!(vocabulary_format(format, 576), Quantization::Q8_0);
    }
}

#[test]
fn an_untied_embedding_stays_and_bytes_are_counted_from_the_headers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny/gpt_oss");
    let weights = Weights::open(&folder).unwrap();
    let config = ModelConfig::from_weights(&weights).unwrap();
    let plan = QuantizationPlan::new(&weights, &config, Quantization::Q8_0).unwrap();
    assert_eq!(plan.format_of("model.embed_tokens.weight"), None);
    assert_eq!(plan.format_of("lm_head.weight"), Some(Quantization::Q8_0));
    assert_eq!(plan.format_of("model.layers.0.mlp.router.weight"), None);
    assert_eq!(plan.format_of("model.layers.2.self_attn.v_proj.weight"), Some(Quantization::Q8_0));
    // Of bf16: the head, and in each of three layers queries and outputs (6 heads of 16) and keys and values (2 of them).
    let elements = 259 * 64 + 3 * 64 * 16 * (2 * 6 + 2 * 2);
    assert_eq!(weights.total_bytes() - plan.weight_bytes(), elements * 2 - elements / 32 * 34);
}
