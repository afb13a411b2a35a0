//! Tensors that hold several matrices or vectors.

use super::{LayerLoader, Source, placement};
use crate::model::ModelError;
use crate::ops::{self, PackedMatrix};
use crate::weights::{Mxfp4Experts, TensorView, WeightDtype};
use candle_core::Tensor;

impl LayerLoader<'_> {
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
        let shape = [count, out_features, in_features];
        let weights = match self.source {
            Source::Files(weights) => weights,
            Source::Heads(heads) => {
                let dtype = heads.expect(name, &shape)?;
                return (0..count).map(|_| self.measure(name, dtype, [out_features, in_features])).collect();
            }
        };
        let tensor = weights.require(name, &shape)?;
        // The file's reader checked that the bytes are those of the shape, so each matrix is an equal share of them.
        let bytes = tensor.data.len() / count;
        let mut matrices = Vec::with_capacity(count);
        for data in tensor.data.chunks_exact(bytes.max(1)) {
            let matrix = TensorView { shape: vec![out_features, in_features], data, ..tensor.clone() };
            matrices.push(self.pack(name, &matrix)?);
            self.progress.advance(bytes);
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
        let shape = [rows.clone().count(), in_features];
        let weights = match self.source {
            Source::Files(weights) => weights,
            Source::Heads(heads) => {
                heads.expect_mxfp4(name, [count, out_features, in_features])?;
                return (0..count).map(|_| self.measure(name, WeightDtype::Mxfp4, shape)).collect();
            }
        };
        let experts = Mxfp4Experts::find(weights, name, count, out_features, in_features)?;
        let mut matrices = Vec::with_capacity(count);
        for expert in 0..count {
            let data = experts.rows(expert, rows.clone());
            let dtype = WeightDtype::Mxfp4;
            let matrix = TensorView { name, dtype, shape: shape.to_vec(), data: &data };
            matrices.push(self.pack(name, &matrix)?);
            self.progress.advance(data.len());
        }
        Ok(matrices)
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
        let shape = [count, size];
        self.placement.add_vector(count * size);
        let weights = match self.source {
            Source::Files(weights) => weights,
            Source::Heads(heads) => {
                heads.expect(name, &shape)?;
                return (0..count).map(|_| placement::unread(self.backend, &[size])).collect();
            }
        };
        let tensor = weights.require(name, &shape)?;
        let bytes = tensor.data.len() / count;
        let mut vectors = Vec::with_capacity(count);
        for data in tensor.data.chunks_exact(bytes.max(1)) {
            let vector = TensorView { shape: vec![size], data, ..tensor.clone() };
            vectors.push(ops::vector(self.backend, &vector, 0.0)?);
        }
        self.progress.advance(tensor.data.len());
        Ok(vectors)
    }

    /// Twice `count` vectors `[size]` that share the tensor `[count, 2 * size]` of this name, the elements of two in turn:
    /// those that have the even places, then the others.
    ///
    /// # Errors
    /// [`ModelError::Weights`] where it is missing or has another shape.
    pub fn alternating_vectors(
        &mut self,
        name: &str,
        count: usize,
        size: usize,
    ) -> Result<[Vec<Tensor>; 2], ModelError> {
        let pairs = self.stacked_vectors(name, count, 2 * size)?;
        let backend = self.backend;
        let is_measured = matches!(self.source, Source::Heads(_));
        let half = |first: usize| -> Result<Vec<Tensor>, ModelError> {
            let every_second = |pair: &Tensor| match is_measured {
                true => placement::unread(backend, &[size]),
                false => Ok(pair.reshape((size, 2))?.narrow(1, first, 1)?.contiguous()?.reshape(size)?),
            };
            pairs.iter().map(every_second).collect()
        };
        Ok([half(0)?, half(1)?])
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
        let shape = [groups * 2 * rows, in_features];
        let weights = match self.source {
            Source::Files(weights) => weights,
            Source::Heads(heads) => {
                let dtype = heads.expect(name, &shape)?;
                let mut part = || self.measure(name, dtype, [groups * rows, in_features]);
                return Ok([part()?, part()?]);
            }
        };
        let tensor = weights.require(name, &shape)?;
        // Rows are whole blocks of equal size in every dtype, so a share of the rows is that share of the bytes.
        let share = tensor.data.len() / (2 * groups);
        let mut part = |first: usize| -> Result<PackedMatrix, ModelError> {
            let data: Vec<u8> =
                tensor.data.chunks_exact(share.max(1)).skip(first).step_by(2).flatten().copied().collect();
            let shape = vec![groups * rows, in_features];
            self.pack(name, &TensorView { shape, data: &data, ..tensor.clone() })
        };
        let parts = [part(0)?, part(1)?];
        self.progress.advance(tensor.data.len());
        Ok(parts)
    }
}
