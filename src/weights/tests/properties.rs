//! Damage: truncated and bit-flipped files give an error, or a header whose every statement holds of the bytes.
use std::{path::Path, sync::Arc};

use proptest::prelude::*;

use super::super::{
    Storage, TensorInfo, Weights, WeightsError,
    gguf::GgufMetadata,
    safetensors,
    testing::{Scratch, bf16_safetensors, rich_gguf},
};

/// Truncations and bit flips of a file; most flips hit its first `header` bytes, where the structure is.
fn damage(bytes: Vec<u8>, header: usize) -> impl Strategy<Value = Vec<u8>> {
    let len = bytes.len();
    let flips = prop::collection::vec((prop_oneof![4 => 0..header, 1 => 0..len], 0u8..8), 0..4);
    let cut = prop_oneof![3 => Just(len), 1 => 0..=len];
    (flips, cut).prop_map(move |(flips, cut)| {
        let mut damaged = bytes.clone();
        for (at, bit) in flips {
            damaged[at] ^= 1 << bit;
        }
        damaged.truncate(cut);
        damaged
    })
}

fn check_tensors(tensors: &[TensorInfo], file_len: usize) {
    for tensor in tensors {
        assert!(tensor.range.start <= tensor.range.end && tensor.range.end <= file_len);
        if let Storage::Supported(dtype) = tensor.storage {
            let elements: usize = tensor.shape.iter().product();
            let bytes = elements / dtype.block_elements() * dtype.block_bytes();
            assert_eq!(tensor.range.len(), bytes);
        }
    }
}

/// Reads every key in every way; errors are welcome, panics are not.
fn exercise(metadata: &GgufMetadata) {
    for key in metadata.keys() {
        let _: (Result<_, WeightsError>, Result<_, _>) = (metadata.u64(key), metadata.f32(key));
        let _ = (metadata.bool(key), metadata.string(key), metadata.strings(key));
        let _ = (metadata.f32s(key), metadata.i64s(key), metadata.bools(key));
    }
}

fn check_gguf(bytes: Vec<u8>) {
    let len = bytes.len();
    if let Ok(metadata) = GgufMetadata::parse(Arc::new(bytes), Path::new("x.gguf")) {
        check_tensors(&metadata.header().tensors, len);
        exercise(&metadata);
    }
}

fn check_safetensors(bytes: &[u8]) {
    if let Ok(header) = safetensors::parse_header(bytes, Path::new("x.safetensors")) {
        check_tensors(&header.tensors, bytes.len());
    }
}

fn small_safetensors() -> Vec<u8> {
    bf16_safetensors(&[("model.norm.weight", &[4]), ("lm_head.weight", &[3, 4])])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_gguf(bytes in damage(rich_gguf().finish(), 1400)) {
        check_gguf(bytes);
    }

    #[test]
    fn damaged_safetensors(bytes in damage(small_safetensors(), 160)) {
        check_safetensors(&bytes);
    }

    #[test]
    fn noise(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        check_safetensors(&bytes);
        let mut gguf = b"GGUF\x03\0\0\0".to_vec();
        gguf.extend(&bytes);
        check_gguf(gguf);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_open_or_say_which(gguf in damage(rich_gguf().finish(), 1400), safetensors in damage(small_safetensors(), 160)) {
        let scratch = Scratch::new();
        scratch.write("config.json", "{}");
        for path in [scratch.write("x.gguf", gguf), scratch.write("x.safetensors", safetensors)] {
            match Weights::open(&path) {
                Ok(weights) => {
                    for name in weights.tensor_names() {
                        if let Ok(view) = weights.get(&name) {
                            prop_assert!(view.is_some());
                        }
                    }
                }
                Err(error) => {
                    let message = error.to_string();
                    prop_assert!(message.starts_with(&path.display().to_string()), "{}", message);
                }
            }
        }
    }
}

/// Each prefix of a valid file is an error: nothing is read that is not there.
#[test]
fn every_truncation_is_refused() {
    let gguf = rich_gguf().finish();
    // The last tensor fills its padding, so no byte of the file is spare.
    for len in 0..gguf.len() {
        assert!(super::super::gguf::parse_header(&gguf[..len], Path::new("x")).is_err(), "{len}");
    }
    let file = small_safetensors();
    for len in 0..file.len() {
        assert!(safetensors::parse_header(&file[..len], Path::new("x")).is_err(), "{len}");
    }
}

/// Every single-bit flip in the header of a valid file.
#[test]
fn every_bit_flip_is_survived() {
    let gguf = rich_gguf().finish();
    let header = gguf.len() - rich_gguf().data.len();
    for bit in 0..header * 8 {
        let mut damaged = gguf.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        check_gguf(damaged);
    }
    let file = small_safetensors();
    for bit in 0..file.len() * 8 {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        check_safetensors(&damaged);
    }
}
