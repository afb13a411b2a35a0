//! One file an operation, over [`Backend`].
//!
//! Activations are contiguous f32 candle tensors on the backend's device.

mod activation;
mod attention;
mod backend;
mod causal_conv;
pub(crate) mod cpu;
#[cfg(feature = "kernels")]
mod device;
mod embedding;
mod error;
mod gated_delta;
mod ggml;
mod instruction_set;
mod kv_arena;
mod kv_write;
mod layer_norm;
mod linear;
mod machine;
mod mapped_embedding;
mod norm;
mod packed;
mod quantize;
mod region;
pub mod roofline;
mod rope;
mod routing;
mod rows;
mod state_layout;
mod step;
mod tensors;
#[cfg(test)]
mod testing;
mod vector;

pub use activation::{add, clamped_swiglu, gelu, gelu_tanh_mul, scale, sigmoid_mul, silu_mul, soft_cap};
pub use attention::{AttentionInput, SequencePages, check_attention, paged_attention};
pub use backend::{Backend, CpuBackend, DeviceChoice};
pub use causal_conv::causal_conv;
pub use embedding::embedding;
pub use error::OpError;
pub use gated_delta::{GatedDeltaInput, gated_delta};
pub use instruction_set::InstructionSet;
pub use kv_arena::{KvArena, KvDtype, KvPageLayout};
pub use kv_write::kv_write;
pub use layer_norm::layer_norm;
pub use linear::linear;
pub use machine::{CpuReport, CudaReport, GpuReport, LibraryReport, MachineReport, available_memory};
pub use mapped_embedding::mapped_embedding;
pub use norm::{add_rms_norm, rms_norm};
pub use packed::PackedMatrix;
pub use quantize::quantize;
pub use rope::{RopeAngles, RopeLayout, normed_rope, rope};
pub use routing::{ExpertGroup, Routing, route, weighted_sum};
pub use rows::select_rows;
pub use state_layout::{RecurrentBatch, RecurrentShape, STATE_CHUNK, StateLayout, StateSlots};
pub use step::{StepAttention, StepGroup, StepList, StepLists, StepRows, StepTables};
pub use vector::vector;
