//! Elementwise operations.
#[cfg(feature = "cuda")]
use super::device::cuda;
use super::{Backend, OpError};
use crate::ops::{
    cpu::{self, elementwise::Elementwise},
    tensors::{F32View, from_elements, require_shape},
};
use candle_core::Tensor;
#[cfg(feature = "kernels")]
use longwick_kernels::Activation;

/// `x + y`, same shape.
///
/// # Errors
/// [`OpError::Shape`] when the shapes differ.
pub fn add(backend: &Backend, x: &Tensor, y: &Tensor) -> Result<Tensor, OpError> {
    #[cfg(feature = "cuda")]
    if backend.cuda().is_some() {
        require_shape(y, "y", x.dims())?;
        return cuda::add(x, y);
    }
    binary(backend, cpu::elementwise::Add, ("x", x), ("y", y))
}

/// `x * factor`.
///
/// # Errors
/// As every operation: a tensor that is not a contiguous f32 one of the backend's device.
pub fn scale(backend: &Backend, x: &Tensor, factor: f32) -> Result<Tensor, OpError> {
    #[cfg(feature = "cuda")]
    if backend.cuda().is_some() {
        return cuda::scale(x, factor);
    }
    binary(backend, cpu::elementwise::Scale { factor }, ("x", x), ("x", x))
}

/// `silu(gate) * up`, same shape; silu(x) = x / (1 + e^-x).
///
/// # Errors
/// [`OpError::Shape`] when the shapes differ.
///
/// # Source
/// Shazeer 2020, GLU Variants Improve Transformer.
pub fn silu_mul(backend: &Backend, gate: &Tensor, up: &Tensor) -> Result<Tensor, OpError> {
    #[cfg(feature = "kernels")]
    if let Backend::Device(device) = backend {
        return gated(device, gate, up, Activation::Silu);
    }
    binary(backend, cpu::elementwise::SiluMul, ("gate", gate), ("up", up))
}

/// `up / (1 + e^-gate)`, same shape.
///
/// # Errors
/// [`OpError::Shape`] when the shapes differ.
pub fn sigmoid_mul(backend: &Backend, gate: &Tensor, up: &Tensor) -> Result<Tensor, OpError> {
    #[cfg(feature = "cuda")]
    if backend.cuda().is_some() {
        require_shape(up, "up", gate.dims())?;
        return cuda::sigmoid_mul(gate, up);
    }
    binary(backend, cpu::elementwise::SigmoidMul, ("gate", gate), ("up", up))
}

/// `gelu_tanh(gate) * up`, same shape.
///
/// 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3), is taken as x / (1 + e^-2u): the same function, without cancellation
/// where x is negative.
///
/// # Errors
/// [`OpError::Shape`] when the shapes differ.
///
/// # Source
/// Hendrycks and Gimpel 2016, Gaussian Error Linear Units.
pub fn gelu_tanh_mul(backend: &Backend, gate: &Tensor, up: &Tensor) -> Result<Tensor, OpError> {
    #[cfg(feature = "kernels")]
    if let Backend::Device(device) = backend {
        return gated(device, gate, up, Activation::GeluTanh);
    }
    binary(backend, cpu::elementwise::GeluTanhMul, ("gate", gate), ("up", up))
}

/// `(up + 1) * gate * sigmoid(alpha * gate)`, same shape; before that `gate` is cut off above `limit`, and `up` above `limit`
/// and below `-limit`.
///
/// # Errors
/// [`OpError::Shape`] when the shapes differ; [`OpError::Value`] when the limit is not positive and finite.
///
/// # Source
/// The reference implementation of gpt-oss (`swiglu`).
pub fn clamped_swiglu(
    backend: &Backend,
    gate: &Tensor,
    up: &Tensor,
    alpha: f32,
    limit: f32,
) -> Result<Tensor, OpError> {
    require_positive("limit", limit)?;
    #[cfg(feature = "kernels")]
    if let Backend::Device(device) = backend {
        return gated(device, gate, up, Activation::ClampedSwiglu { alpha, limit });
    }
    let op = cpu::elementwise::ClampedSwiglu { alpha, limit };
    binary(backend, op, ("gate", gate), ("up", up))
}

/// `0.5 x (1 + erf(x / sqrt(2)))`, within 4e-7 |x|.
///
/// It is taken as max(x, 0) - |x| Q(|x|), Q being the normal distribution's upper tail: no cancellation where x is negative.
///
/// # Errors
/// As every operation: a tensor that is not a contiguous f32 one of the backend's device.
///
/// # Source
/// Hendrycks and Gimpel 2016, Gaussian Error Linear Units; erf by Abramowitz and Stegun, formula 7.1.26.
pub fn gelu(backend: &Backend, x: &Tensor) -> Result<Tensor, OpError> {
    binary(backend, cpu::elementwise::Gelu, ("x", x), ("x", x))
}

/// `cap * tanh(x / cap)`.
///
/// # Errors
/// [`OpError::Value`] when the cap is not positive and finite.
pub fn soft_cap(backend: &Backend, x: &Tensor, cap: f32) -> Result<Tensor, OpError> {
    require_positive("cap", cap)?;
    #[cfg(feature = "cuda")]
    if backend.cuda().is_some() {
        return cuda::soft_cap(x, cap);
    }
    binary(backend, cpu::elementwise::SoftCap { cap }, ("x", x), ("x", x))
}

fn require_positive(argument: &'static str, value: f32) -> Result<(), OpError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(OpError::Value { argument, expected: "positive and finite".to_owned(), found: value.to_string() })
}

/// A gated activation's kernel, on tensors of one shape.
#[cfg(feature = "kernels")]
fn gated(
    device: &super::device::DeviceBackend,
    gate: &Tensor,
    up: &Tensor,
    activation: Activation,
) -> Result<Tensor, OpError> {
    require_shape(up, "up", gate.dims())?;
    super::device::gated(device, gate, up, activation)
}

fn binary(
    backend: &Backend,
    op: impl Elementwise,
    x: (&'static str, &Tensor),
    y: (&'static str, &Tensor),
) -> Result<Tensor, OpError> {
    require_shape(y.1, y.0, x.1.dims())?;
    let cpu = backend.host();
    let (left, right) = (F32View::of(x.1, x.0)?, F32View::of(y.1, y.0)?);
    from_elements(cpu::elementwise::apply(cpu, op, &left, &right), x.1.dims())
}

#[cfg(test)]
mod tests;
