//! Rotary position embedding.
use super::{Backend, OpError, StepList, rms_norm};
use crate::ops::{
    cpu,
    tensors::{F32View, from_elements, require_shape},
};
use candle_core::Tensor;

/// How rotary pairs lie in a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayout {
    /// Element i pairs with i + rotary_dim / 2 (HF checkpoints).
    HalfRotation,
    /// Element 2i pairs with 2i + 1 (GGUF files of the llama architecture).
    Interleaved,
}

/// cos and sin for a list of positions: `[positions, rotary_dim / 2]`; angle = f32(position) x f32(inverse frequency).
///
/// The angle is rounded to f32, as the models were trained; its cosine and sine are taken in f64 and rounded once.
pub struct RopeAngles {
    table: AngleTable,
    pairs: usize,
    positions: usize,
}

/// Where the table lies.
enum AngleTable {
    Host {
        cos: Vec<f32>,
        sin: Vec<f32>,
    },
    #[cfg(feature = "kernels")]
    Device(Box<super::device::DeviceAngles>),
}

impl RopeAngles {
    /// Tabulates. `attention_scaling` multiplies cos and sin (1 but for YaRN).
    ///
    /// # Errors
    /// [`OpError::Shape`] when there are no frequencies.
    pub fn new<'a>(
        backend: &Backend,
        inverse_frequencies: impl Into<StepList<'a, f32>>,
        positions: impl Into<StepList<'a, u32>>,
        attention_scaling: f32,
    ) -> Result<Self, OpError> {
        let (frequencies, positions) = (inverse_frequencies.into(), positions.into());
        let (pairs, rows) = (frequencies.host.len(), positions.host.len());
        if pairs == 0 {
            let expected = "at least one frequency".to_owned();
            return Err(OpError::Shape { argument: "inverse_frequencies", expected, found: vec![0] });
        }
        let table = match backend {
            Backend::Cpu(cpu) => {
                let (cos, sin) = cpu::rope::angles(cpu, frequencies.host, positions.host, attention_scaling);
                AngleTable::Host { cos, sin }
            }
            #[cfg(feature = "kernels")]
            Backend::Device(device) => AngleTable::Device(Box::new(super::device::DeviceAngles::new(
                device,
                frequencies,
                positions,
                attention_scaling,
            )?)),
        };
        Ok(Self { table, pairs, positions: rows })
    }

    /// Dimensions of a head that rotate.
    pub fn rotary_dim(&self) -> usize {
        2 * self.pairs
    }
}

/// Rotates `x: [tokens, heads, dim]`, one position a token; dims past the rotary ones pass through.
///
/// # Arithmetic
/// `a cos - b sin` and `b cos + a sin`, each product and sum rounded, as HF's modules do.
///
/// # Errors
/// [`OpError::Shape`] when `x` has other than one token a position, or heads shorter than the rotary dimensions.
///
/// # Source
/// Su et al. 2021, RoFormer.
pub fn rope(
    backend: &Backend,
    x: &Tensor,
    angles: &RopeAngles,
    layout: RopeLayout,
) -> Result<Tensor, OpError> {
    normed_rope(backend, x, None, angles, layout)
}

/// As [`rope`], of `x` or, with a norm's weight `[dim]` and epsilon, of [`rms_norm`] of it.
///
/// # Errors
/// As [`rope`] and [`rms_norm`].
pub fn normed_rope(
    backend: &Backend,
    x: &Tensor,
    norm: Option<(&Tensor, f32)>,
    angles: &RopeAngles,
    layout: RopeLayout,
) -> Result<Tensor, OpError> {
    let (tokens, heads, dim) = match x.dims3() {
        Ok(shape) if shape.0 == angles.positions && shape.2 >= angles.rotary_dim() => shape,
        _ => {
            let expected = format!("[{}, heads, at least {}]", angles.positions, angles.rotary_dim());
            return Err(OpError::Shape { argument: "x", expected, found: x.dims().to_vec() });
        }
    };
    if let Some((weight, _)) = norm {
        require_shape(weight, "weight", &[dim])?;
    }
    let (cpu, cos, sin) = match (backend, &angles.table) {
        (Backend::Cpu(cpu), AngleTable::Host { cos, sin }) => (cpu, cos, sin),
        #[cfg(feature = "kernels")]
        (Backend::Device(device), AngleTable::Device(table)) => {
            return super::device::rope(device, x, table, norm, layout);
        }
        #[cfg(feature = "kernels")]
        _ => return Err(OpError::Device { argument: "angles" }),
    };
    let normed = norm.map(|(weight, eps)| rms_norm(backend, x, weight, eps)).transpose()?;
    let elements = F32View::of(normed.as_ref().unwrap_or(x), "x")?;
    let table = cpu::rope::Table { cos, sin, pairs: angles.pairs, layout };
    from_elements(cpu::rope::rope(cpu, &elements, heads, dim, &table), (tokens, heads, dim))
}

#[cfg(test)]
mod tests;
