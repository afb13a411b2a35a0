//! Between candle's CPU tensors and slices of f32, without copies.
use super::OpError;
use candle_core::{DType, Device, Shape, Storage, StorageRef, Tensor};
use std::ops::{Deref, Range};

/// The elements of a contiguous f32 CPU tensor, in row-major order. Holds the tensor's read lock.
pub(crate) struct F32View<'a> {
    storage: StorageRef<'a>,
    range: Range<usize>,
}

/// Where the elements of a contiguous f32 tensor lie in its storage.
pub(crate) fn contiguous_f32(tensor: &Tensor, argument: &'static str) -> Result<Range<usize>, OpError> {
    if tensor.dtype() != DType::F32 {
        return Err(OpError::UnsupportedDtype {
            argument: argument.to_owned(),
            expected: "f32",
            found: tensor.dtype().as_str().to_owned(),
        });
    }
    match tensor.layout().contiguous_offsets() {
        Some((start, end)) => Ok(start..end),
        None => Err(OpError::NotContiguous { argument, found: tensor.dims().to_vec() }),
    }
}

impl<'a> F32View<'a> {
    /// Borrows the elements of `tensor`, which errors call `argument`.
    ///
    /// # Errors
    /// [`OpError::UnsupportedDtype`], [`OpError::NotContiguous`] or [`OpError::Device`].
    pub(crate) fn of(tensor: &'a Tensor, argument: &'static str) -> Result<Self, OpError> {
        let range = contiguous_f32(tensor, argument)?;
        let (storage, _) = tensor.storage_and_layout();
        match &*storage {
            Storage::Cpu(cpu) if cpu.as_slice::<f32>()?.len() >= range.end => Ok(Self { storage, range }),
            _ => Err(OpError::Device { argument }),
        }
    }
}

impl Deref for F32View<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &*self.storage {
            Storage::Cpu(cpu) => cpu.as_slice::<f32>().map_or(&[], |all| &all[self.range.clone()]),
            _ => &[],
        }
    }
}

/// `len` elements that `write` fills. Zeroing an output first would cost a pass over memory on one thread, which is a
/// tenth of a prefill.
///
/// # Safety
/// `write` must write every element of its slice, and read none before it wrote it.
pub(crate) unsafe fn filled_by(len: usize, write: impl FnOnce(&mut [f32])) -> Vec<f32> {
    let mut elements = Vec::with_capacity(len);
    // SAFETY: the memory is reserved, and the caller promises that nothing is read before it is written.
    write(unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr(), len) });
    // SAFETY: the caller promises that every element is written now.
    unsafe { elements.set_len(len) };
    elements
}

/// A CPU tensor that takes `elements` over as they are.
pub(crate) fn from_elements(elements: Vec<f32>, shape: impl Into<Shape>) -> Result<Tensor, OpError> {
    Ok(Tensor::from_vec(elements, shape.into(), &Device::Cpu)?)
}

/// The two dimensions of a matrix.
pub(crate) fn matrix_dims(tensor: &Tensor, argument: &'static str) -> Result<(usize, usize), OpError> {
    tensor.dims2().map_err(|_| OpError::Shape {
        argument,
        expected: "two dimensions".to_owned(),
        found: tensor.dims().to_vec(),
    })
}

/// Refuses indices that are not below `limit`.
pub(crate) fn check_indices(argument: &'static str, indices: &[u32], limit: usize) -> Result<(), OpError> {
    match indices.iter().position(|&index| index as usize >= limit) {
        None => Ok(()),
        Some(position) => {
            let (index, limit) = (u64::from(indices[position]), limit as u64);
            Err(OpError::Index { argument, position, index, limit })
        }
    }
}

/// Refuses `tensor` unless its shape is `expected`.
pub(crate) fn require_shape(
    tensor: &Tensor,
    argument: &'static str,
    expected: &[usize],
) -> Result<(), OpError> {
    if tensor.dims() == expected {
        return Ok(());
    }
    Err(OpError::Shape { argument, expected: format!("shape {expected:?}"), found: tensor.dims().to_vec() })
}
