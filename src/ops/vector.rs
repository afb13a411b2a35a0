//! One-dimensional weights.
use super::{
    Backend, OpError, PackedMatrix, embedding,
    tensors::{F32View, from_elements},
};
use crate::weights::TensorView;
use candle_core::Tensor;
use std::sync::Arc;

/// A 1-d tensor (norm weight, bias) as f32 on the device, `offset` added to each element (an offset of 0 changes no bit).
///
/// # Errors
/// [`OpError::WeightData`] when the tensor has not one dimension, or its data another length than its shape and dtype ask for.
pub fn vector(backend: &Backend, tensor: &TensorView<'_>, offset: f32) -> Result<Tensor, OpError> {
    let [len] = tensor.shape[..] else {
        return Err(OpError::WeightData {
            name: tensor.name.to_owned(),
            dtype: format!("{:?}", tensor.dtype),
            shape: tensor.shape.clone(),
            reason: format!("a vector has 1 dimension, found {}", tensor.shape.len()),
        });
    };
    // Unpacked on the host, whatever the device: a few kilobytes while a model loads.
    let host = Backend::Cpu(Arc::clone(backend.host()));
    let row = PackedMatrix::pack(&host, &TensorView { shape: vec![1, len], ..tensor.clone() })?;
    let row = embedding(&host, &row, &[0])?;
    let vector = if offset == 0.0 {
        row.reshape(len)?
    } else {
        from_elements(F32View::of(&row, "row")?.iter().map(|element| element + offset).collect(), len)?
    };
    Ok(vector.to_device(&backend.device())?)
}
