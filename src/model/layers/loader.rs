//! [`LayerLoader`]: tensors by name into packed weights.

use super::Linear;
use crate::model::{ModelConfig, ModelError};
use crate::ops::{self, Backend, PackedMatrix};
use crate::weights::{MappedMatrix, Mxfp4Experts, TensorView, WeightDtype, Weights};
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

    /// The `count` matrices that the tensor `[count, out_features, in_features]` of this name holds.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn stacked_matrices(
        &mut self,
        name: &str,
        count: usize,
        out_features: usize,
        in_features: usize,
    ) -> Result<Vec<PackedMatrix>, ModelError> {
        let tensor = self.weights.require(name, &[count, out_features, in_features])?;
        // The file's reader checked that the bytes are those of the shape, so each matrix is an equal share of them.
        let bytes = tensor.data.len() / count;
        let mut matrices = Vec::with_capacity(count);
        for data in tensor.data.chunks_exact(bytes.max(1)) {
            let matrix = TensorView { shape: vec![out_features, in_features], data, ..tensor.clone() };
            matrices.push(PackedMatrix::pack(self.backend, &matrix)?);
            self.advance(bytes);
        }
        Ok(matrices)
    }

    /// As [`Self::stacked_matrices`], of the published MXFP4 tensors `<name>_blocks` and `<name>_scales`, which stay packed:
    /// the named `rows` of each of the `[count, out_features, in_features]` matrices.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where one is missing or has another shape or dtype.
    pub fn mxfp4_matrices(
        &mut self,
        name: &str,
        [count, out_features, in_features]: [usize; 3],
        rows: impl Iterator<Item = usize> + Clone,
    ) -> Result<Vec<PackedMatrix>, ModelError> {
        let experts = Mxfp4Experts::find(self.weights, name, count, out_features, in_features)?;
        let shape = [rows.clone().count(), in_features];
        let mut matrices = Vec::with_capacity(count);
        for expert in 0..count {
            let data = experts.rows(expert, rows.clone());
            let dtype = WeightDtype::Mxfp4;
            let matrix = TensorView { name, dtype, shape: shape.to_vec(), data: &data };
            matrices.push(PackedMatrix::pack(self.backend, &matrix)?);
            self.advance(data.len());
        }
        Ok(matrices)
    }

    /// `<prefix>.weight` of shape `[out_features, in_features]` and, where `is_biased`, `<prefix>.bias`.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where one is missing or has another shape.
    pub fn linear(
        &mut self,
        prefix: &str,
        out_features: usize,
        in_features: usize,
        is_biased: bool,
    ) -> Result<Linear, ModelError> {
        let weight = self.matrix(&format!("{prefix}.weight"), out_features, in_features)?;
        let bias = match is_biased {
            true => Some(self.vector(&format!("{prefix}.bias"), out_features, 0.0)?),
            false => None,
        };
        Ok(Linear { weight, bias })
    }

    /// The `count` vectors that the tensor `[count, size]` of this name holds.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn stacked_vectors(
        &mut self,
        name: &str,
        count: usize,
        size: usize,
    ) -> Result<Vec<Tensor>, ModelError> {
        let tensor = self.weights.require(name, &[count, size])?;
        let bytes = tensor.data.len() / count;
        let mut vectors = Vec::with_capacity(count);
        for data in tensor.data.chunks_exact(bytes.max(1)) {
            let vector = TensorView { shape: vec![size], data, ..tensor.clone() };
            vectors.push(ops::vector(self.backend, &vector, 0.0)?);
        }
        self.advance(tensor.data.len());
        Ok(vectors)
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
