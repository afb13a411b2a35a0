//! Gated activations.
use super::{
    DeviceBackend,
    tensors::{Input, Output},
};
use crate::ops::OpError;
use candle_core::Tensor;
use longwick_kernels::{Activation, Gated};

/// `activation(gate) * up`, both `[.., n]` of one shape that is checked; n is a multiple of 8.
pub(in crate::ops) fn gated(
    device: &DeviceBackend,
    gate: &Tensor,
    up: &Tensor,
    activation: Activation,
) -> Result<Tensor, OpError> {
    let dim = gate.dims().last().copied().unwrap_or(0);
    let (gate_input, up_input) = (Input::of(device, gate, "gate")?, Input::of(device, up, "up")?);
    let mut out = Output::new(device, gate.elem_count())?;
    let (gate_view, up_view) = (gate_input.view()?, up_input.view()?);
    let kernel =
        Gated { gate: gate_view, up: up_view, row_stride: dim, dim, activation, out: out.view_mut() };
    device.submit(|stream| kernel.launch(stream))?;
    out.into_tensor(gate.shape())
}
