//! A result depends on its tokens alone: not on chunk sizes, threads, the rest of the batch, prefix hits, forks,
//! preemption, or whether a token was generated or part of the prompt. Every comparison here is bit for bit.
//!
//! The checkpoints under `tests/fixtures/tiny` take the wide product of settings, those under `tests/fixtures/shapes` each
//! setting once; two real GGUF models, where they are present, take a few prompts of 2,500 tokens.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it skips"
)]

#[path = "../parity/assets.rs"]
mod assets;
mod decoding;
#[path = "../parity/drawn.rs"]
mod drawn;
mod edges;
mod memory;
mod persist;
mod real;
mod recurrent;
mod schedules;
mod sessions;
mod shapes;
mod support;
mod tiny;
