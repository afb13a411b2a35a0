//! [`Linear`]: a matrix and its bias.

use crate::model::ModelError;
use crate::ops::{self, Backend, PackedMatrix};
use candle_core::Tensor;

/// A linear layer, its bias where it has one.
pub struct Linear {
    /// `[out, in]`.
    pub weight: PackedMatrix,
    /// `[out]`.
    pub bias: Option<Tensor>,
}

impl Linear {
    /// `x: [rows, in]` to `[rows, out]`.
    ///
    /// # Errors
    /// [`ModelError::Op`] where the shapes do not fit.
    pub fn forward(&self, backend: &Backend, x: &Tensor) -> Result<Tensor, ModelError> {
        Ok(ops::linear(backend, x, &self.weight, self.bias.as_ref())?)
    }

    /// Bytes of the packed weight.
    pub fn packed_bytes(&self) -> usize {
        self.weight.packed_bytes()
    }
}
