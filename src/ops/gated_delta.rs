//! The gated delta rule: linear attention with a state that decays and is corrected.
use super::{Backend, KvArena, OpError, RecurrentBatch};
use crate::ops::{
    cpu,
    tensors::{F32View, from_elements, require_shape},
};
use candle_core::Tensor;

/// What the gated delta rule works on.
pub struct GatedDeltaInput<'a> {
    /// `[tokens, channels]`: queries, keys and values side by side, head by head.
    pub qkv: &'a Tensor,
    /// `[tokens, value_heads]`: beta is its logistic function.
    pub beta: &'a Tensor,
    /// `[tokens, value_heads]`: the log of the decay is `-exp(a_log) softplus(decay + dt_bias)`.
    pub decay: &'a Tensor,
    /// `[value_heads]`.
    pub a_log: &'a Tensor,
    /// `[value_heads]`.
    pub dt_bias: &'a Tensor,
}

/// The gated delta rule over the sequences' slots: `[tokens, value_heads * value_dim]`.
///
/// With queries and keys divided by their length (and queries by the root of `key_dim`), each token decays the state S by
/// exp(g), adds `k (beta (v - k^T S))^T`, and reads `q^T S`.
///
/// # Arithmetic
/// The same for prefill and decode. Chunks are 64 tokens at absolute multiples of 64. With S the state at the chunk's
/// beginning, c the sums of g from there (in f32, ascending), row i of a chunk is
/// 1. `u_i = beta_i (v_i - exp(c_i) k_i^T S - sum over j < i of exp(c_i - c_j) (k_i.k_j) u_j)`,
/// 2. `o_i = exp(c_i) q_i^T S + sum over j <= i of exp(c_i - c_j) (q_i.k_j) u_j`,
///
/// and after row 63 the state becomes `exp(c_63) S + sum over j of exp(c_63 - c_j) k_j u_j^T`. Every sum is one chain of fused
/// multiply-adds in ascending order, so a row's bits do not depend on how the tokens were cut into steps. Beta and g are taken
/// in f64.
///
/// # Errors
/// [`OpError::Shape`], [`OpError::Value`] and [`OpError::Index`] name the argument; nothing is written then.
///
/// # Source
/// Yang, Kautz and Hatamizadeh 2024, Gated Delta Networks (the chunkwise form, solved row by row); parameters as in HF's
/// Qwen3.5.
pub fn gated_delta(
    backend: &Backend,
    input: &GatedDeltaInput<'_>,
    batch: &RecurrentBatch<'_>,
    arena: &mut KvArena,
) -> Result<Tensor, OpError> {
    let tokens = input.qkv.dims().first().copied().unwrap_or(0);
    batch.check(tokens, arena)?;
    let shape = &batch.layout.shape;
    require_shape(input.qkv, "qkv", &[tokens, shape.channels()])?;
    require_shape(input.beta, "beta", &[tokens, shape.value_heads])?;
    require_shape(input.decay, "decay", &[tokens, shape.value_heads])?;
    require_shape(input.a_log, "a_log", &[shape.value_heads])?;
    require_shape(input.dt_bias, "dt_bias", &[shape.value_heads])?;
    let cpu = backend.only_cpu("the gated delta rule")?;
    let rows = cpu::gated_delta::Rows {
        qkv: &F32View::of(input.qkv, "qkv")?,
        beta: &F32View::of(input.beta, "beta")?,
        decay: &F32View::of(input.decay, "decay")?,
        a_log: &F32View::of(input.a_log, "a_log")?,
        dt_bias: &F32View::of(input.dt_bias, "dt_bias")?,
    };
    let output = cpu::gated_delta::gated_delta(cpu, &rows, batch, arena);
    from_elements(output, (tokens, shape.value_heads * shape.value_dim))
}

#[cfg(test)]
mod tests;
