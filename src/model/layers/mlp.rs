//! [`GatedMlp`]: down(activation(gate(x)) * up(x)).

use super::LayerLoader;
use crate::model::{Activation, ModelError};
use crate::ops::{self, Backend, OpError, PackedMatrix};
use candle_core::Tensor;

impl Activation {
    /// What goes into the down projection, from what comes out of gate and up projection; all of one shape.
    ///
    /// # Errors
    /// [`OpError::Shape`] when the shapes differ.
    pub fn gate(self, backend: &Backend, gate: &Tensor, up: &Tensor) -> Result<Tensor, OpError> {
        match self {
            Self::Silu => ops::silu_mul(backend, gate, up),
            Self::GeluTanh => ops::gelu_tanh_mul(backend, gate, up),
            Self::ClampedSwiglu { alpha, limit } => ops::clamped_swiglu(backend, gate, up, alpha, limit),
        }
    }
}

/// The gated feed-forward block.
pub struct GatedMlp {
    gate: PackedMatrix,
    up: PackedMatrix,
    down: PackedMatrix,
    activation: Activation,
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
        let inner = self.activation.gate(backend, &gate, &up)?;
        Ok(ops::linear(backend, &inner, &self.down, None)?)
    }
}
