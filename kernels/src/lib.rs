//! CUDA kernels of longwick behind safe wrappers, and the emulator that runs the same text on the CPU.
//!
//! # Code map
//! * `include/` holds the kernels, one operation a file, and `include/arch/` the only PTX, each piece beside its host body;
//! * `csrc/` holds the launchers: `extern "C"` functions that check a parameter struct and choose a kernel;
//! * `emu/` is the emulator: one fiber a CUDA thread;
//! * here, one module an operation: it checks what it is given, fills the parameter struct and calls the launcher.
//!
//! # Features
//! * none: types and errors, no compiler needed;
//! * `emu`: the host compiler builds kernels and emulator; [`Stream::emu`] runs them;
//! * `emu-asan`: the same under the address and undefined-behaviour sanitizers.
//!
//! Architecture invariant: the kernel text that nvcc compiles for the card is the text that the emulator runs in the tests.
//!
//! Architecture invariant: offsets into caches are 64-bit.
#![deny(missing_docs)]

mod error;
#[cfg(feature = "emu")]
mod ffi;
#[cfg(feature = "emu")]
mod gated;
#[cfg(feature = "emu")]
mod kv_cache;
#[cfg(feature = "emu")]
mod kv_write;
#[cfg(feature = "emu")]
mod rms_norm;
#[cfg(feature = "emu")]
mod rope;
#[cfg(feature = "emu")]
mod stream;
mod view;

#[cfg(feature = "emu")]
pub mod emu;

pub use error::KernelError;
pub use view::{Dtype, Element, View, ViewMut};
#[cfg(feature = "emu")]
pub use {
    gated::{Activation, Gated},
    kv_cache::{KvLayout, KvPool, KvPoolMut, KvScales},
    kv_write::{KvWrite, Slots},
    rms_norm::RmsNorm,
    rope::{HeadNorm, Rope, RopeAngles},
    stream::Stream,
};
