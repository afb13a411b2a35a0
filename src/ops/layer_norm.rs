//! Layer norm.
use super::{
    Backend, OpError, cpu,
    tensors::{F32View, from_elements, require_shape},
};
use candle_core::Tensor;

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last dimension of n elements, var being the mean of squared deviations.
///
/// # Arithmetic
/// Both sums are taken in the order of [`super::rms_norm`], the mean's before the deviations': an order that depends on n alone.
///
/// # Errors
/// [`OpError::Shape`] when `weight` or `bias` is not as long as x's last dimension.
///
/// # Source
/// Ba, Kiros and Hinton 2016, Layer Normalization.
pub fn layer_norm(
    backend: &Backend,
    x: &Tensor,
    weight: &Tensor,
    bias: &Tensor,
    eps: f32,
) -> Result<Tensor, OpError> {
    let Some(&n) = x.dims().last() else {
        return Err(OpError::Shape {
            argument: "x",
            expected: "at least one dimension".to_owned(),
            found: Vec::new(),
        });
    };
    require_shape(weight, "weight", &[n])?;
    require_shape(bias, "bias", &[n])?;
    let cpu = backend.only_cpu("layer norm")?;
    let (elements, weight, bias) =
        (F32View::of(x, "x")?, F32View::of(weight, "weight")?, F32View::of(bias, "bias")?);
    from_elements(cpu::layer_norm::layer_norm(cpu, &elements, (&weight, &bias), eps), x.dims())
}

#[cfg(test)]
mod tests;
