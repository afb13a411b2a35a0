//! Causal convolution, channel by channel.
use super::{Backend, KvArena, OpError, RecurrentBatch};
use crate::ops::{
    cpu,
    tensors::{F32View, from_elements, require_shape},
};
use candle_core::Tensor;

/// `silu(sum over j of weight[j] x[t - conv_kernel + 1 + j])` in each channel. Inputs before the step come from the sequence's
/// slots, those before the sequence are 0; the inputs that later steps need are written to its slots.
///
/// # Shapes
/// * `x`: `[tokens, channels]`
/// * `weight`: `[conv_kernel, channels]`
/// * returns `[tokens, channels]`
///
/// # Arithmetic
/// One chain of fused multiply-adds over ascending j from 0, then silu: a row depends on its inputs alone.
///
/// # Errors
/// [`OpError::Shape`], [`OpError::Value`] and [`OpError::Index`] name the argument; nothing is written then.
///
/// # Source
/// Yang, Kautz and Hatamizadeh 2024, Gated Delta Networks; the short convolution as in Mamba.
pub fn causal_conv(
    backend: &Backend,
    x: &Tensor,
    weight: &Tensor,
    batch: &RecurrentBatch<'_>,
    arena: &mut KvArena,
) -> Result<Tensor, OpError> {
    let tokens = x.dims().first().copied().unwrap_or(0);
    batch.check(tokens, arena)?;
    let shape = &batch.layout.shape;
    require_shape(x, "x", &[tokens, shape.channels()])?;
    require_shape(weight, "weight", &[shape.conv_kernel, shape.channels()])?;
    let cpu = backend.only_cpu("causal convolution")?;
    let (elements, weight) = (F32View::of(x, "x")?, F32View::of(weight, "weight")?);
    from_elements(cpu::causal_conv::causal_conv(cpu, &elements, &weight, batch, arena), x.dims())
}

#[cfg(test)]
mod tests;
