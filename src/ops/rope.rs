//! Rotary position embedding.
use super::{Backend, OpError};
use crate::ops::{
    cpu,
    tensors::{F32View, from_elements},
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
    cos: Vec<f32>,
    sin: Vec<f32>,
    pairs: usize,
    positions: usize,
}

impl RopeAngles {
    /// Tabulates. `attention_scaling` multiplies cos and sin (1 but for YaRN).
    ///
    /// # Errors
    /// [`OpError::Shape`] when there are no frequencies.
    pub fn new(
        backend: &Backend,
        inverse_frequencies: &[f32],
        positions: &[u32],
        attention_scaling: f32,
    ) -> Result<Self, OpError> {
        let pairs = inverse_frequencies.len();
        if pairs == 0 {
            let expected = "at least one frequency".to_owned();
            return Err(OpError::Shape { argument: "inverse_frequencies", expected, found: vec![0] });
        }
        let Backend::Cpu(cpu) = backend;
        let (cos, sin) = cpu::rope::angles(cpu, inverse_frequencies, positions, attention_scaling);
        Ok(Self { cos, sin, pairs, positions: positions.len() })
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
    let (tokens, heads, dim) = match x.dims3() {
        Ok(shape) if shape.0 == angles.positions && shape.2 >= angles.rotary_dim() => shape,
        _ => {
            let expected = format!("[{}, heads, at least {}]", angles.positions, angles.rotary_dim());
            return Err(OpError::Shape { argument: "x", expected, found: x.dims().to_vec() });
        }
    };
    let Backend::Cpu(cpu) = backend;
    let elements = F32View::of(x, "x")?;
    let table = cpu::rope::Table { cos: &angles.cos, sin: &angles.sin, pairs: angles.pairs, layout };
    from_elements(cpu::rope::rope(cpu, &elements, heads, dim, &table), (tokens, heads, dim))
}

#[cfg(test)]
mod tests;
