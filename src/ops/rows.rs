//! Picking rows.
use super::{Backend, OpError};
use crate::ops::tensors::{F32View, check_indices, from_elements, matrix_dims};
use candle_core::Tensor;

/// Rows of a `[rows, n]` tensor, in the order named; a row may be named more than once.
///
/// # Errors
/// [`OpError::Shape`] unless `x` is a matrix, [`OpError::Index`] for a row that it has not.
#[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "rows lie in the host's memory"))]
pub fn select_rows(backend: &Backend, x: &Tensor, rows: &[u32]) -> Result<Tensor, OpError> {
    let (count, n) = matrix_dims(x, "x")?;
    check_indices("rows", rows, count)?;
    #[cfg(feature = "cuda")]
    if let Some(place) = backend.cuda() {
        return super::device::cuda::select_rows(place, x, rows);
    }
    let elements = F32View::of(x, "x")?;
    let mut output = Vec::with_capacity(rows.len() * n);
    for &row in rows {
        let index = row as usize;
        output.extend_from_slice(&elements[index * n..(index + 1) * n]);
    }
    from_elements(output, (rows.len(), n))
}

#[cfg(test)]
mod tests;
