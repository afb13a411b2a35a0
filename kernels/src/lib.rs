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
//! * `emu`: the host compiler builds kernels and emulator; `Stream::emu` runs them;
//! * `cuda`: nvcc builds fatbins for sm_80, 86, 89, 90 and 120, and PTX for other cards; `Stream::cuda` runs them;
//! * `emu-asan`: the same under the address and undefined-behaviour sanitizers.
//!
//! Architecture invariant: the kernel text that nvcc compiles for the card is the text that the emulator runs in the tests.
//!
//! Architecture invariant: offsets into caches are 64-bit.
#![deny(missing_docs)]

#[cfg(launchers)]
mod attention;
#[cfg(feature = "cuda")]
mod cuda;
mod error;
#[cfg(launchers)]
mod ffi;
#[cfg(launchers)]
mod gated;
#[cfg(launchers)]
mod kv_cache;
#[cfg(launchers)]
mod kv_write;
#[cfg(launchers)]
mod rms_norm;
#[cfg(launchers)]
mod rope;
#[cfg(launchers)]
mod stream;
mod view;

#[cfg(feature = "emu")]
pub mod emu;

#[cfg(feature = "cuda")]
pub use cuda::{ARCHITECTURES, CudaKernels};
pub use error::KernelError;
pub use view::{Dtype, Element, View, ViewMut};
#[cfg(launchers)]
pub use {
    attention::{AttentionPlan, AttentionSequence, AttentionShape, PagedAttention, PlanView},
    gated::{Activation, Gated},
    kv_cache::{KvLayout, KvPool, KvPoolMut, KvScales},
    kv_write::{KvWrite, Slots},
    rms_norm::RmsNorm,
    rope::{HeadNorm, Rope, RopeAngles, RopeLayout},
    stream::Stream,
};
