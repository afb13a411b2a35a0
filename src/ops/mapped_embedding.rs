//! Rows of an embedding matrix that stays in its file.
use super::{Backend, OpError, PackedMatrix, embedding, tensors::from_elements};
use crate::weights::{MappedMatrix, TensorView};
use candle_core::Tensor;
use std::sync::Arc;

/// Rows of a matrix in a mapped file: `[ids, columns]`, with the bits that [`super::embedding`] gives of the packed
/// matrix.
///
/// The rows asked for are packed and unpacked again, so that every element type has one formula; that costs a row what
/// a few output features of a linear layer cost it. The file is the host's, so a device gets the rows copied over.
///
/// # Errors
/// [`OpError::Index`] when an id is not below [`MappedMatrix::rows`]; [`OpError::WeightData`] as for packing.
pub fn mapped_embedding(backend: &Backend, table: &MappedMatrix, ids: &[u32]) -> Result<Tensor, OpError> {
    let mut data = Vec::new();
    for (position, &id) in ids.iter().enumerate() {
        let Some(row) = table.row(id as usize) else {
            let (index, limit) = (u64::from(id), table.rows() as u64);
            return Err(OpError::Index { argument: "ids", position, index, limit });
        };
        data.extend_from_slice(row);
    }
    if ids.is_empty() {
        return Ok(from_elements(Vec::new(), (0, table.columns()))?.to_device(&backend.device())?);
    }
    let shape = vec![ids.len(), table.columns()];
    let rows = TensorView { name: table.name(), dtype: table.dtype(), shape, data: &data };
    let host = Backend::Cpu(Arc::clone(backend.host()));
    let rows = PackedMatrix::pack(&host, &rows)?;
    let rows = embedding(&host, &rows, &(0..ids.len() as u32).collect::<Vec<_>>())?;
    Ok(rows.to_device(&backend.device())?)
}

#[cfg(test)]
mod tests;
