//! Logits and greedy tokens against reference implementations, through the engine alone.
//!
//! Five sources of truth: checkpoints of our own making under `tests/fixtures/tiny` (always there,
//! `scripts/export_fixtures.py` makes them), such whose weights are drawn under `tests/fixtures/shapes`
//! (`scripts/export_shape_fixtures.py`), the encoders under `tests/fixtures/encoders`
//! (`scripts/export_encoder_fixtures.py`), the tiny checkpoints of the shared data, and real models. The last two
//! skip, and say so, where the files are absent.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it skips"
)]

mod assets;
mod checkpoint;
mod dialects;
mod drawn;
mod encoders;
mod gguf;
mod gguf_file;
mod llama_gguf;
mod quantized;
mod real;
mod reference;
mod rewritten;
mod shapes;
mod tiny;

use std::num::NonZeroUsize;

use longwick::engine::EngineOptions;

fn options(pool_bytes: u64) -> EngineOptions {
    EngineOptions {
        threads: NonZeroUsize::new(2),
        kv_pool_bytes: Some(pool_bytes),
        ..EngineOptions::default()
    }
}
