//! Rotary position embedding, after a norm over each head where there is one.
use super::{
    DeviceBackend,
    memory::Listed,
    tensors::{Input, Output},
};
use crate::ops::{OpError, RopeLayout, StepList};
use candle_core::Tensor;
use longwick_kernels::{HeadNorm, Rope, RopeAngles, RopeLayout as KernelLayout};

/// cos and sin, `[positions, pairs]` each, on the device.
pub(in crate::ops) struct DeviceAngles {
    cosines: Output,
    sines: Output,
}

impl DeviceAngles {
    /// As [`crate::ops::RopeAngles::new`].
    pub(in crate::ops) fn new(
        device: &DeviceBackend,
        frequencies: StepList<'_, f32>,
        positions: StepList<'_, u32>,
        attention_factor: f32,
    ) -> Result<Self, OpError> {
        let (listed, positions_listed) = (Listed::of(device, frequencies)?, Listed::of(device, positions)?);
        let len = frequencies.host.len() * positions.host.len();
        let (mut cosines, mut sines) = (Output::new(device, len)?, Output::new(device, len)?);
        let kernel = RopeAngles {
            positions: positions_listed.view(),
            inverse_frequencies: listed.view(),
            attention_factor,
            cosines: cosines.view_mut(),
            sines: sines.view_mut(),
        };
        device.submit(|stream| kernel.launch(stream))?;
        Ok(Self { cosines, sines })
    }
}

/// As [`crate::ops::rope`], with `norm` (weight and epsilon) over each head before it. Shapes are checked.
pub(in crate::ops) fn rope(
    device: &DeviceBackend,
    x: &Tensor,
    angles: &DeviceAngles,
    norm: Option<(&Tensor, f32)>,
    layout: RopeLayout,
) -> Result<Tensor, OpError> {
    let (_, heads, head_dim) = x.dims3()?;
    let input = Input::of(device, x, "x")?;
    let weight = norm.map(|(weight, _)| Input::of(device, weight, "weight")).transpose()?;
    let norm = match (&weight, norm) {
        (Some(weight), Some((_, epsilon))) => Some(HeadNorm { weight: weight.view()?, epsilon }),
        _ => None,
    };
    let mut out = Output::new(device, x.elem_count())?;
    let kernel = Rope {
        x: input.view()?,
        heads,
        head_dim,
        norm,
        cosines: angles.cosines.view(),
        sines: angles.sines.view(),
        layout: match layout {
            RopeLayout::HalfRotation => KernelLayout::HalfRotation,
            RopeLayout::Interleaved => KernelLayout::Interleaved,
        },
        out: out.view_mut(),
    };
    device.submit(|stream| kernel.launch(stream))?;
    out.into_tensor(x.shape())
}
