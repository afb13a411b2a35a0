//! GGUF files that llama.cpp's own converter made of our checkpoints (`scripts/export_gguf_fixtures.py`) give the bits
//! that the checkpoints give.

use std::path::Path;

use crate::assets;
use crate::checkpoint::every_logit;
use crate::drawn::described;
use crate::llama_gguf::LlamaGguf;
use crate::tiny::check_model;

fn check(name: &str, file: &str) {
    let folder = assets::own_fixture(name);
    let mut original = assets::load(&folder, crate::options(16 << 20));
    let mut converted = assets::load(&folder.join(file), crate::options(16 << 20));
    assert_eq!(converted.config().layer_windows, original.config().layer_windows);
    assert_eq!(
        converted.config().gemma4.map(|gemma4| gemma4.full_heads),
        original.config().gemma4.map(|gemma4| gemma4.full_heads)
    );
    assert!(every_logit(&mut converted) == every_logit(&mut original), "{name}/{file}: other bits");
}

#[test]
fn gemma4() {
    check("gemma4", "model-bf16.gguf");
}

#[test]
fn gemma4_whose_keys_are_values() {
    check("gemma4_keys_are_values", "model-f16.gguf");
}

/// Written by the tests. Sums of products of reordered queries and keys have other bits, so that HF's logits are what it is
/// held to.
#[test]
fn llama() {
    check_model(&LlamaGguf::of_drawn("llama_five_heads").path(), &described("llama_five_heads"));
}

/// Llama 3's scaling lies in a tensor there.
#[test]
fn llama_3() {
    let folder = assets::own_fixture("llama");
    let scaling = |path: &Path| assets::load(path, crate::options(16 << 20)).config().rope.scaling;
    let converted = LlamaGguf::of_checkpoint(&folder);
    assert_eq!(scaling(&converted.path()), scaling(&folder));
    check_model(&converted.path(), &folder);
}
