//! Rows times quantised weights, in integers.
//!
//! The rows become fixed-point numbers of sixteen bits with a power of two as scale every [`FIXED_BLOCK`] elements ([`rows`]).
//! Products with the weights' integers add up exactly in an i32 over each of the weights' groups; a group's sum, scaled, is then
//! added in f32, groups in ascending order:
//!
//! ```text
//! sum = fma(f32(group's integer sum) x row scale, weight scale, sum)
//! sum = fma(f32(sum of the row's integers) x row scale, weight offset, sum)    where the format has offsets
//! ```
//!
//! Only these steps round, so the bits do not depend on the order of the integers, and [`few_rows`] and [`many_rows`] agree.
//! Sixteen-bit products run at twice the rate of f32 ones on processors with AVX2 or AVX-512 VNNI, and the error of a row's
//! element, at most 2^-16 of the greatest one in its block, stays far below that of eight-bit activations.
pub(crate) mod few_rows;
pub(crate) mod many_rows;
pub(crate) mod rows;
pub(crate) mod unpacked;

/// Elements of a row that share a scale.
pub(crate) const FIXED_BLOCK: usize = 32;
