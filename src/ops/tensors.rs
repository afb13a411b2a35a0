//! Between candle's CPU tensors and slices of f32, without copies.
use super::OpError;
use candle_core::{DType, Device, Shape, Storage, StorageRef, Tensor};
use std::ops::{Deref, Range};

/// The elements of a contiguous f32 CPU tensor, in row-major order. Holds the tensor's read lock.
pub(crate) struct F32View<'a> {
    storage: StorageRef<'a>,
    range: Range<usize>,
}

impl<'a> F32View<'a> {
    /// Borrows the elements of `tensor`, which errors call `argument`.
    ///
    /// # Errors
    /// [`OpError::UnsupportedDtype`], [`OpError::NotContiguous`] or [`OpError::Device`].
    pub(crate) fn of(tensor: &'a Tensor, argument: &'static str) -> Result<Self, OpError> {
        if tensor.dtype() != DType::F32 {
            return Err(OpError::UnsupportedDtype {
                argument: argument.to_owned(),
                expected: "f32",
                found: tensor.dtype().as_str().to_owned(),
            });
        }
        let (storage, layout) = tensor.storage_and_layout();
        let Some((start, end)) = layout.contiguous_offsets() else {
            return Err(OpError::NotContiguous { argument, found: tensor.dims().to_vec() });
        };
        match &*storage {
            Storage::Cpu(cpu) if cpu.as_slice::<f32>()?.len() >= end => {
                Ok(Self { storage, range: start..end })
            }
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
