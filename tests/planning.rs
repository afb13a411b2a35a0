//! Memory plans beside what engines hold: weights, blocks, slots and scratch.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it skips"
)]

#[path = "planning/allocations.rs"]
mod allocations;
#[path = "parity/assets.rs"]
mod assets;
#[path = "planning/engines.rs"]
mod engines;
#[path = "planning/scratch.rs"]
mod scratch;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longwick::engine::{EngineOptions, MemoryPlan, PlanRequest};
use longwick::ops::KvDtype;

/// Allocations are counted over the whole process, so that only one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checkpoints in the repository, all families among them.
const OWN: [&str; 9] = [
    "llama",
    "qwen3",
    "gemma3",
    "gemma4",
    "gemma4_keys_are_values",
    "qwen3_moe",
    "qwen3_moe_gguf",
    "gpt_oss",
    "qwen3_5",
];

/// Tiny checkpoints of the shared data.
const SHARED: [&str; 9] = [
    "gemma3",
    "gemma3_rope_linear",
    "gemma4",
    "gemma4_31b_like",
    "gemma4_e2b_like",
    "gpt_oss",
    "qwen3",
    "qwen3_5",
    "qwen3_moe",
];

/// Published models that are small enough to load here: a manifest's name, and its file.
const REAL: [(&str, &str); 2] =
    [("smollm2-135m", "SmolLM2-135M-Instruct.Q4_1.gguf"), ("gemma3-270m", "gemma-3-270m-q4_k_m.gguf")];

/// Every checkpoint that is there.
fn checkpoints() -> Vec<PathBuf> {
    let own = OWN.map(|name| {
        let folder = assets::own_fixture(name);
        let gguf = folder.join("model.gguf");
        if gguf.exists() { gguf } else { folder }
    });
    let converted = assets::own_fixture("qwen3_5").join("model-bf16.gguf");
    let shared = SHARED.iter().filter_map(|name| assets::shared_data(&format!("tiny/{name}")));
    own.into_iter().chain([converted]).chain(shared).collect()
}

fn options(kv_dtype: KvDtype, chunk: usize) -> EngineOptions {
    EngineOptions {
        threads: NonZeroUsize::new(2),
        kv_dtype,
        kv_pool_bytes: Some(64 << 20),
        max_batch_tokens: chunk,
        ..EngineOptions::default()
    }
}

fn request(context: usize) -> PlanRequest {
    PlanRequest { context, ..PlanRequest::default() }
}

fn plan_of(path: &std::path::Path, options: &EngineOptions, context: usize) -> MemoryPlan {
    MemoryPlan::of_files(path, &[], options, &request(context))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
