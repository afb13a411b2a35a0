//! [`WeightPlacement`]: how many bytes of weights lie where.

use crate::model::ModelError;
use crate::ops::{Backend, PackedMatrix};
use crate::weights::MappedMatrix;
use candle_core::{DType, Tensor};

/// Where a model's weights lie once it is loaded, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct WeightPlacement {
    /// Matrices repacked for the backend, in memory.
    pub packed: usize,
    /// Norms, biases, sinks and convolutions: f32, in memory.
    pub vectors: usize,
    /// Tables that stay in their mapped files; the system keeps of them the pages in use.
    pub mapped: usize,
    /// Elements of all of these.
    pub parameters: u64,
}

impl WeightPlacement {
    /// Bytes held in memory.
    pub fn in_memory(&self) -> usize {
        self.packed.saturating_add(self.vectors)
    }

    pub(super) fn add_packed(&mut self, matrix: &PackedMatrix) {
        self.packed = self.packed.saturating_add(matrix.packed_bytes());
        self.parameters += matrix.out_features() as u64 * matrix.in_features() as u64;
    }

    pub(super) fn add_mapped(&mut self, matrix: &MappedMatrix) {
        self.mapped = self.mapped.saturating_add(matrix.file_bytes());
        self.parameters += matrix.rows() as u64 * matrix.columns() as u64;
    }

    pub(super) fn add_vector(&mut self, elements: usize) {
        self.vectors += elements * size_of::<f32>();
        self.parameters += elements as u64;
    }
}

/// A tensor of this shape that stands for one whose elements are not read; it takes the memory of a single element.
pub(super) fn unread(backend: &Backend, shape: &[usize]) -> Result<Tensor, ModelError> {
    Ok(Tensor::zeros((), DType::F32, &backend.device())?.broadcast_as(shape)?)
}
