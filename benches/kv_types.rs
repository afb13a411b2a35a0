//! How far types of cached keys and values move a model's next tokens from f32's, over the first 4,000 tokens of a text.
//!
//! `cargo bench --bench kv_types -- MODEL [TEXT]`: a GGUF file or folder, and a text file (by default this repository's README).
#![allow(clippy::print_stdout, reason = "a program that prints what it measures")]

use longwick::engine::{Engine, EngineOptions, PositionLogprobs, Request, RequestKind, RequestOutput};
use longwick::ops::KvDtype;
use longwick::tokenizer::SpecialTokens;
use std::path::Path;

type Failure = Box<dyn std::error::Error>;

const TOKENS: usize = 4_000;
/// Of each position's most likely tokens so many are compared.
const TOP: usize = 50;

/// The most likely tokens after each position.
fn next_tokens(model: &Path, text: &str, kv_dtype: KvDtype) -> Result<Vec<PositionLogprobs>, Failure> {
    let options = EngineOptions { kv_dtype, ..EngineOptions::default() };
    let mut engine = Engine::load(model, options, &mut |_, _| {})?;
    let mut tokens = engine.tokenizer()?.encode(text, SpecialTokens::AsText)?;
    tokens.truncate(TOKENS);
    let positions = (0..tokens.len()).collect();
    match engine.run(Request::new(tokens, RequestKind::Logits { positions, top: TOP }))?.output {
        RequestOutput::Logits(found) => Ok(found),
        other => Err(format!("{other:?}").into()),
    }
}

/// The sum of p (ln p - ln q) over the tokens that are in both.
fn divergence(p: &PositionLogprobs, q: &PositionLogprobs) -> f64 {
    let of_q = |id| q.ids.iter().position(|&other| other == id).map(|place| q.logprobs[place]);
    p.ids
        .iter()
        .zip(&p.logprobs)
        .filter_map(|(&id, &p)| of_q(id).map(|q| (f64::from(p), f64::from(q))))
        .map(|(p, q)| p.exp() * (p - q))
        .sum()
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let Some(model) = arguments.next() else {
        println!("no model named; cargo bench --bench kv_types -- MODEL [TEXT]");
        return Ok(());
    };
    let text =
        arguments.next().unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/README.md").to_owned());
    let text = std::fs::read_to_string(text)?;
    let exact = next_tokens(Path::new(&model), &text, KvDtype::F32)?;
    for kv_dtype in [KvDtype::Bf16, KvDtype::Fp8] {
        let found = next_tokens(Path::new(&model), &text, kv_dtype)?;
        let pairs = || exact.iter().zip(&found);
        let same = pairs().filter(|(exact, found)| exact.ids[0] == found.ids[0]).count();
        let divergence: f64 = pairs().map(|(exact, found)| divergence(exact, found)).sum();
        println!(
            "{kv_dtype:5} {} tokens: KL divergence from f32 {:.6} nats a token, the same most likely token {:.2} %",
            exact.len(),
            divergence / exact.len() as f64,
            100.0 * same as f64 / exact.len() as f64
        );
    }
    Ok(())
}
