//! A whole GGUF file: header, tensor table, metadata and tokenizer.
#![no_main]
use longwick::{tokenizer::Tokenizer, weights::Weights};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    longwick_fuzz::with_file("m.gguf", data, |path| {
        Weights::open(path).map(|weights| Tokenizer::from_weights(&weights).is_ok()).is_ok()
    });
});
