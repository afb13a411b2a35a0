//! Damaged files through the public readers: truncated, bit-flipped, with hostile counts, cut and repeated pieces.
//!
//! Every read must end in a success or a typed error that says something; a panic fails the test, and so does memory
//! beyond a small multiple of the files. The damage is seeded, so that a failure comes back; `fuzz/` goes further.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells what it skips"
)]

mod checkpoints;
mod damage;
mod experts;
#[path = "../parity/gguf_file.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod gguf_file;
mod histories;
mod models;
mod recurrent;
mod settings;
