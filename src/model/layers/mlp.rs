//! [`GatedMlp`]: down(activation(gate(x)) * up(x)).

use super::LayerLoader;
use crate::model::{Activation, ModelError};
use crate::ops::{self, Backend, PackedMatrix};
use candle_core::Tensor;

/// The gated feed-forward block.
pub struct GatedMlp {
    gate: PackedMatrix,
    up: PackedMatrix,
    down: PackedMatrix,
    activation: Activation,
}

impl Activation {
    /// `activation(gate) * up`, same shape.
    ///
    /// # Errors
    /// [`ModelError::Op`] when the shapes differ.
    pub fn gated(self, backend: &Backend, gate: &Tensor, up: &Tensor) -> Result<Tensor, ModelError> {
        Ok(match self {
            Activation::Silu => ops::silu_mul(backend, gate, up)?,
            Activation::GeluTanh => ops::gelu_tanh_mul(backend, gate, up)?,
        })
    }
}

impl GatedMlp {
    /// Loads `<prefix>.gate_proj`, `up_proj` and `down_proj`, of `inner` features between them.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where one is missing or has another shape.
    pub fn load(loader: &mut LayerLoader<'_>, prefix: &str, inner: usize) -> Result<Self, ModelError> {
        let hidden = loader.config.hidden_size;
        Ok(Self {
            gate: loader.matrix(&format!("{prefix}.gate_proj.weight"), inner, hidden)?,
            up: loader.matrix(&format!("{prefix}.up_proj.weight"), inner, hidden)?,
            down: loader.matrix(&format!("{prefix}.down_proj.weight"), hidden, inner)?,
            activation: loader.config.activation,
        })
    }

    /// `x: [rows, hidden]` to `[rows, hidden]`.
    ///
    /// # Errors
    /// [`ModelError::Op`] where the shapes do not fit.
    pub fn forward(&self, backend: &Backend, x: &Tensor) -> Result<Tensor, ModelError> {
        let gate = ops::linear(backend, x, &self.gate, None)?;
        let up = ops::linear(backend, x, &self.up, None)?;
        let inner = self.activation.gated(backend, &gate, &up)?;
        Ok(ops::linear(backend, &inner, &self.down, None)?)
    }

    /// Bytes held in memory.
    pub fn packed_bytes(&self) -> usize {
        self.gate.packed_bytes() + self.up.packed_bytes() + self.down.packed_bytes()
    }
}
