//! How far types of cached keys and values move a model's next tokens from f32's, over the first 4,000 tokens of a text.
//!
//! `cargo bench --bench kv_types -- MODEL [TEXT]`: a GGUF file or folder, and a text file (by default this repository's README).
#![allow(clippy::print_stdout, reason = "a program that prints what it measures")]

#[path = "../tests/device/likeness.rs"]
mod likeness;

use likeness::{Likeness, next_tokens};
use longwick::engine::EngineOptions;
use longwick::ops::KvDtype;
use std::path::Path;

const TOKENS: usize = 4_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let Some(model) = arguments.next() else {
        println!("no model named; cargo bench --bench kv_types -- MODEL [TEXT]");
        return Ok(());
    };
    let text =
        arguments.next().unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/README.md").to_owned());
    let text = std::fs::read_to_string(text)?;
    let of = |kv_dtype| {
        let options = EngineOptions { kv_dtype, ..EngineOptions::default() };
        next_tokens(Path::new(&model), &text, TOKENS, options)
    };
    let exact = of(KvDtype::F32)?;
    for kv_dtype in [KvDtype::Bf16, KvDtype::Fp8] {
        println!("{kv_dtype:5} beside f32, {}", Likeness::new(&exact, &of(kv_dtype)?));
    }
    Ok(())
}
