//! A `tokenizer.json`.
#![no_main]
use longwick::tokenizer::Tokenizer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    longwick_fuzz::with_file("tokenizer.json", data, |path| Tokenizer::from_file(path).is_ok());
});
