//! [`RmsNorm`].

use super::LayerLoader;
use crate::model::ModelError;
use crate::ops::{self, Backend};
use candle_core::{DType, Tensor};

/// Root-mean-square norm over the last dimension.
#[derive(Clone)]
pub struct RmsNorm {
    weight: Tensor,
    eps: f32,
}

impl RmsNorm {
    /// Loads the weight `[size]` of this name.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn load(loader: &mut LayerLoader<'_>, name: &str, size: usize) -> Result<Self, ModelError> {
        let weight = loader.vector(name, size, loader.config.norm_offset)?;
        Ok(Self { weight, eps: loader.config.rms_norm_eps })
    }

    /// A norm without weights: each element is multiplied by 1.
    ///
    /// # Errors
    /// [`ModelError::Candle`] where there is no memory for it.
    pub fn weightless(loader: &LayerLoader<'_>, size: usize) -> Result<Self, ModelError> {
        let weight = Tensor::ones(size, DType::F32, &loader.backend.device())?;
        Ok(Self { weight, eps: loader.config.rms_norm_eps })
    }

    /// Weight and epsilon, for an operation that the norm is a part of.
    pub fn parts(&self) -> (&Tensor, f32) {
        (&self.weight, self.eps)
    }

    /// `x + residual`, and the norm of that sum: both of x's shape.
    ///
    /// # Errors
    /// [`ModelError::Op`] where the shapes do not fit.
    pub fn forward_sum(
        &self,
        backend: &Backend,
        x: &Tensor,
        residual: &Tensor,
    ) -> Result<(Tensor, Tensor), ModelError> {
        Ok(ops::add_rms_norm(backend, x, residual, &self.weight, self.eps)?)
    }

    /// `x: [.., size]` to the same shape.
    ///
    /// # Errors
    /// [`ModelError::Op`] where the shapes do not fit.
    pub fn forward(&self, backend: &Backend, x: &Tensor) -> Result<Tensor, ModelError> {
        Ok(ops::rms_norm(backend, x, &self.weight, self.eps)?)
    }
}
