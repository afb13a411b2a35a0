//! The whole engine on the emulator of the CUDA kernels, through the binding that CUDA uses.
//!
//! It computes what the CPU computes, within the references' tolerance, and a row's bits depend on its tokens alone, however they
//! are chunked, batched and forked.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it skips"
)]

#[path = "../parity/assets.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod assets;
#[path = "../e2e/bench.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod bench;
#[path = "../parity/drawn.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod drawn;
#[path = "../parity/gguf_file.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod gguf_file;
mod invariance;
mod likeness;
#[path = "../parity/llama_gguf.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod llama_gguf;
mod parity;
mod real;
mod record;
#[path = "../parity/reference.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod reference;
mod refusals;
mod sharing;
#[path = "../property/support.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod support;
#[path = "../e2e/tiny.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod tiny;

use longwick::engine::EngineOptions;
use longwick::ops::{DeviceChoice, KvDtype};

/// The emulator; with `LONGWICK_TEST_DEVICE=cuda` (feature `cuda`) the GPU.
fn accelerator() -> DeviceChoice {
    match std::env::var_os("LONGWICK_TEST_DEVICE") {
        Some(name) if name == "cuda" => DeviceChoice::Cuda { ordinal: 0 },
        _ => DeviceChoice::Emu,
    }
}

/// Two threads and the device's kernels.
fn options(device: DeviceChoice, kv_dtype: KvDtype, chunk: usize) -> EngineOptions {
    EngineOptions { device, kv_pool_bytes: Some(16 << 20), ..support::options(kv_dtype, 2, chunk) }
}
