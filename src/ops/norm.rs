//! Root-mean-square norm.
use super::{Backend, OpError, add};
use crate::ops::{
    cpu,
    tensors::{F32View, from_elements, require_shape},
};
use candle_core::Tensor;

/// RMS norm over the last dimension: `x: [.., n]`, `weight: [n]`; returns x's shape.
///
/// # Arithmetic
/// `(x * r) * weight` with `r = 1 / sqrt(mean(x^2) + eps)`, in the order of HF's modules. The squares are summed by fused
/// multiply-add in 64 lanes (index modulo 64, ascending), then lanes i, i + 16, i + 32, i + 48 as (a + b) + (c + d), then i with
/// i + 8, + 4, + 2, + 1: an order that depends on n alone.
///
/// # Errors
/// [`OpError::Shape`] when `weight` is not as long as x's last dimension.
///
/// # Source
/// Zhang and Sennrich 2019, Root Mean Square Layer Normalization.
pub fn rms_norm(backend: &Backend, x: &Tensor, weight: &Tensor, eps: f32) -> Result<Tensor, OpError> {
    let Some(&n) = x.dims().last() else {
        return Err(OpError::Shape {
            argument: "x",
            expected: "at least one dimension".to_owned(),
            found: Vec::new(),
        });
    };
    require_shape(weight, "weight", &[n])?;
    #[cfg(feature = "kernels")]
    if let Backend::Device(device) = backend {
        return super::device::rms_norm(device, x, weight, eps);
    }
    let cpu = backend.host();
    let (elements, weight) = (F32View::of(x, "x")?, F32View::of(weight, "weight")?);
    from_elements(cpu::norm::rms_norm(cpu, &elements, &weight, eps), x.dims())
}

/// `x + residual`, and its RMS norm: both of x's shape.
///
/// # Errors
/// As [`rms_norm`]; [`OpError::Shape`] when the two differ in shape.
pub fn add_rms_norm(
    backend: &Backend,
    x: &Tensor,
    residual: &Tensor,
    weight: &Tensor,
    eps: f32,
) -> Result<(Tensor, Tensor), OpError> {
    #[cfg(feature = "kernels")]
    if let Backend::Device(device) = backend {
        require_shape(residual, "residual", x.dims())?;
        require_shape(weight, "weight", &x.dims()[x.dims().len().saturating_sub(1)..])?;
        return super::device::add_rms_norm(device, x, residual, weight, eps);
    }
    let sum = add(backend, x, residual)?;
    let normed = rms_norm(backend, &sum, weight, eps)?;
    Ok((sum, normed))
}

#[cfg(test)]
mod tests;
