//! Root-mean-square norm, alone and after a sum.
use super::{
    DeviceBackend,
    tensors::{Input, Output},
};
use crate::ops::OpError;
use candle_core::Tensor;
use longwick_kernels::RmsNorm;

/// As [`crate::ops::rms_norm`], whose shapes are checked.
pub(in crate::ops) fn rms_norm(
    device: &DeviceBackend,
    x: &Tensor,
    weight: &Tensor,
    epsilon: f32,
) -> Result<Tensor, OpError> {
    let (input, weight) = (Input::of(device, x, "x")?, Input::of(device, weight, "weight")?);
    let mut out = Output::new(device, x.elem_count())?;
    let (x_view, weight, out_view) = (input.view()?, weight.view()?, out.view_mut());
    let norm = RmsNorm { x: x_view, residual: None, weight, epsilon, out: out_view };
    device.submit(|stream| norm.launch(stream))?;
    out.into_tensor(x.shape())
}

/// As [`crate::ops::add_rms_norm`], whose shapes are checked.
pub(in crate::ops) fn add_rms_norm(
    device: &DeviceBackend,
    x: &Tensor,
    residual: &Tensor,
    weight: &Tensor,
    epsilon: f32,
) -> Result<(Tensor, Tensor), OpError> {
    let inputs = (
        Input::of(device, x, "x")?,
        Input::of(device, residual, "residual")?,
        Input::of(device, weight, "weight")?,
    );
    let (mut sum, mut out) = (Output::new(device, x.elem_count())?, Output::new(device, x.elem_count())?);
    let norm = RmsNorm {
        x: inputs.0.view()?,
        residual: Some((inputs.1.view()?, sum.view_mut())),
        weight: inputs.2.view()?,
        epsilon,
        out: out.view_mut(),
    };
    device.submit(|stream| norm.launch(stream))?;
    Ok((sum.into_tensor(x.shape())?, out.into_tensor(x.shape())?))
}
