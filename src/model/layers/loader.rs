//! [`LayerLoader`]: tensors by name into packed weights.

use crate::model::{ModelConfig, ModelError};
use crate::ops::{self, Backend, PackedMatrix};
use crate::weights::{TensorView, Weights};
use candle_core::Tensor;

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

    /// Two matrices `[groups * rows, in_features]` that share the tensor `[groups * 2 * rows, in_features]` of this name:
    /// `rows` rows of the one, then as many of the other, in each group.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn interleaved_matrices(
        &mut self,
        name: &str,
        groups: usize,
        rows: usize,
        in_features: usize,
    ) -> Result<[PackedMatrix; 2], ModelError> {
        let tensor = self.weights.require(name, &[groups * 2 * rows, in_features])?;
        // Rows are whole blocks of equal size in every dtype, so a share of the rows is that share of the bytes.
        let share = tensor.data.len() / (2 * groups);
        let part = |first: usize| -> Result<PackedMatrix, ModelError> {
            let data: Vec<u8> =
                tensor.data.chunks_exact(share.max(1)).skip(first).step_by(2).flatten().copied().collect();
            let shape = vec![groups * rows, in_features];
            Ok(PackedMatrix::pack(self.backend, &TensorView { shape, data: &data, ..tensor.clone() })?)
        };
        let parts = [part(0)?, part(1)?];
        self.advance(tensor.data.len());
        Ok(parts)
    }

    /// The depthwise convolution `[channels, 1, kernel]` of this name, transposed: `[kernel, channels]` in f32.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn convolution(&mut self, name: &str, channels: usize, kernel: usize) -> Result<Tensor, ModelError> {
        let tensor = self.weights.require(name, &[channels, 1, kernel])?;
        let matrix = TensorView { shape: vec![channels, kernel], ..tensor.clone() };
        let matrix = PackedMatrix::pack(self.backend, &matrix)?;
        let rows: Vec<u32> = (0..channels as u32).collect();
        let weight = ops::embedding(self.backend, &matrix, &rows)?.t()?.contiguous()?;
        self.advance(tensor.data.len());
        Ok(weight)
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
