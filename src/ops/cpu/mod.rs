//! The CPU's kernels: each is written once, over [`simd::Lanes`].
pub(crate) mod attention;
pub(crate) mod elementwise;
pub(crate) mod few_rows;
pub(crate) mod functions;
pub(crate) mod kv_write;
pub(crate) mod many_rows;
pub(crate) mod norm;
pub(crate) mod panel;
pub(crate) mod rope;
pub(crate) mod simd;
pub(crate) mod threads;
pub(crate) mod workers;
