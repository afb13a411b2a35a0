//! Rows times float weights: each output is one chain of fused multiply-adds over ascending k.
pub(crate) mod few_rows;
pub(crate) mod many_rows;
