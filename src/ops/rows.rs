//! Picking rows.
use super::{Backend, OpError};
use crate::ops::tensors::{F32View, from_elements, matrix_dims};
use candle_core::Tensor;

/// Rows of a `[rows, n]` tensor, in the order named; a row may be named more than once.
///
/// # Errors
/// [`OpError::Shape`] unless `x` is a matrix, [`OpError::Index`] for a row that it has not.
pub fn select_rows(backend: &Backend, x: &Tensor, rows: &[u32]) -> Result<Tensor, OpError> {
    let Backend::Cpu(_) = backend;
    let (count, n) = matrix_dims(x, "x")?;
    let elements = F32View::of(x, "x")?;
    let mut output = Vec::with_capacity(rows.len() * n);
    for (position, &row) in rows.iter().enumerate() {
        let index = row as usize;
        if index >= count {
            return Err(OpError::Index {
                argument: "rows",
                position,
                index: u64::from(row),
                limit: count as u64,
            });
        }
        output.extend_from_slice(&elements[index * n..(index + 1) * n]);
    }
    from_elements(output, (rows.len(), n))
}

#[cfg(test)]
mod tests;
