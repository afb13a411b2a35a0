//! The CPU's kernels: each is written once, over [`simd::Lanes`].
pub(crate) mod attention;
pub(crate) mod causal_conv;
pub(crate) mod elementwise;
pub(crate) mod fixed;
pub(crate) mod float;
pub(crate) mod functions;
pub(crate) mod gated_delta;
pub(crate) mod kv_write;
pub(crate) mod linear_output;
pub(crate) mod norm;
pub(crate) mod panel;
pub(crate) mod rope;
pub(crate) mod row_buffers;
pub(crate) mod simd;
pub(crate) mod state;
pub(crate) mod threads;
pub(crate) mod workers;
