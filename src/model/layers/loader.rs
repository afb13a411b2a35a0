//! [`LayerLoader`]: tensors by name into packed weights.

use crate::model::{ModelConfig, ModelError};
use crate::ops::{self, Backend, PackedMatrix};
use crate::weights::{MappedMatrix, TensorView, Weights};
use candle_core::Tensor;
use std::ops::Range;

/// Reads tensors of opened weights, checks their shapes, packs them for the backend, and reports progress.
pub struct LayerLoader<'a> {
    /// Where operations run.
    pub backend: &'a Backend,
    /// The model's shapes.
    pub config: &'a ModelConfig,
    weights: &'a Weights,
    progress: &'a mut dyn FnMut(u64, u64),
    loaded_bytes: u64,
    total_bytes: u64,
}

impl<'a> LayerLoader<'a> {
    /// `progress(loaded, total)` is called after each tensor, in bytes on disk.
    pub fn new(
        backend: &'a Backend,
        config: &'a ModelConfig,
        weights: &'a Weights,
        progress: &'a mut dyn FnMut(u64, u64),
    ) -> Self {
        let total_bytes = weights.total_bytes();
        Self { backend, config, weights, progress, loaded_bytes: 0, total_bytes }
    }

    /// The matrix `[out_features, in_features]` of this name.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn matrix(
        &mut self,
        name: &str,
        out_features: usize,
        in_features: usize,
    ) -> Result<PackedMatrix, ModelError> {
        let tensor = self.weights.require(name, &[out_features, in_features])?;
        let packed = PackedMatrix::pack(self.backend, &tensor)?;
        self.advance(tensor.data.len());
        Ok(packed)
    }

    /// `rows` of the matrix `[out_features, in_features]` of this name, as a matrix of their own.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape; [`ModelError::Op`] for rows that it has not.
    pub fn matrix_rows(
        &mut self,
        name: &str,
        shape: [usize; 2],
        rows: Range<usize>,
    ) -> Result<PackedMatrix, ModelError> {
        let tensor = self.weights.require(name, &shape)?;
        let row_bytes = tensor.data.len() / shape[0].max(1);
        let data = tensor.data.get(rows.start * row_bytes..rows.end * row_bytes).unwrap_or_default();
        let tensor = TensorView { shape: vec![rows.len(), shape[1]], data, ..tensor };
        let packed = PackedMatrix::pack(self.backend, &tensor)?;
        self.advance(tensor.data.len());
        Ok(packed)
    }

    /// The matrix of this shape and name, which stays in its file.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn mapped_matrix(&mut self, name: &str, shape: [usize; 2]) -> Result<MappedMatrix, ModelError> {
        let matrix = self.weights.mapped_matrix(name, shape)?;
        self.advance(matrix.file_bytes());
        Ok(matrix)
    }

    /// The vector of one element of this name.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn scalar(&mut self, name: &str) -> Result<f32, ModelError> {
        Ok(self.vector(name, 1, 0.0)?.reshape(())?.to_scalar()?)
    }

    /// The vector `[size]` of this name, `offset` added to each element.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn vector(&mut self, name: &str, size: usize, offset: f32) -> Result<Tensor, ModelError> {
        let tensor = self.weights.require(name, &[size])?;
        let vector = ops::vector(self.backend, &tensor, offset)?;
        self.advance(tensor.data.len());
        Ok(vector)
    }

    /// Whether the files hold a tensor of this name.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where its entry is damaged.
    pub fn has(&self, name: &str) -> Result<bool, ModelError> {
        Ok(self.weights.get(name)?.is_some())
    }

    fn advance(&mut self, bytes: usize) {
        self.loaded_bytes += bytes as u64;
        (self.progress)(self.loaded_bytes, self.total_bytes.max(self.loaded_bytes));
    }
}
