//! Elementwise operations without a kernel of ours, by candle.
use super::CudaPlace;
use crate::ops::OpError;
use candle_core::{Device, Tensor};

/// `x + y`, same shape.
pub(in crate::ops) fn add(x: &Tensor, y: &Tensor) -> Result<Tensor, OpError> {
    Ok(x.add(y)?)
}

/// `x * factor`.
pub(in crate::ops) fn scale(x: &Tensor, factor: f32) -> Result<Tensor, OpError> {
    Ok(x.affine(f64::from(factor), 0.0)?)
}

/// `cap * tanh(x / cap)`.
pub(in crate::ops) fn soft_cap(x: &Tensor, cap: f32) -> Result<Tensor, OpError> {
    let cap = f64::from(cap);
    Ok(x.affine(1.0 / cap, 0.0)?.tanh()?.affine(cap, 0.0)?)
}

/// `up / (1 + e^-gate)`, same shape.
pub(in crate::ops) fn sigmoid_mul(gate: &Tensor, up: &Tensor) -> Result<Tensor, OpError> {
    Ok(up.div(&gate.neg()?.exp()?.affine(1.0, 1.0)?)?)
}

/// Rows of a matrix, in the order named; every one is there.
pub(in crate::ops) fn select_rows(place: &CudaPlace, x: &Tensor, rows: &[u32]) -> Result<Tensor, OpError> {
    let rows = Tensor::new(rows, &Device::Cuda(place.device.clone()))?;
    Ok(x.index_select(&rows, 0)?)
}
