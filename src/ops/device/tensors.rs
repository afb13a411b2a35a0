//! Between candle's tensors and the kernels' views.
use super::{DeviceBackend, Place};
use crate::ops::OpError;
#[cfg(feature = "emu")]
use crate::ops::tensors::F32View;
#[cfg(feature = "cuda")]
use crate::ops::tensors::contiguous_f32;
#[cfg(feature = "cuda")]
use candle_core::{
    CudaDevice, CudaStorage, Storage, StorageRef, cuda::cudarc::driver::CudaSlice, op::BackpropOp,
};
use candle_core::{Shape, Tensor};
use longwick_kernels::{View, ViewMut};
#[cfg(feature = "cuda")]
use std::ops::Range;

/// A contiguous f32 tensor of the device, to be read.
pub(super) enum Input<'a> {
    #[cfg(feature = "emu")]
    Host(F32View<'a>),
    #[cfg(feature = "cuda")]
    Cuda { storage: StorageRef<'a>, range: Range<usize> },
}

impl<'a> Input<'a> {
    /// Borrows the elements of `tensor`, which errors call `argument`.
    ///
    /// # Errors
    /// [`OpError::UnsupportedDtype`], [`OpError::NotContiguous`] or [`OpError::Device`].
    pub(super) fn of(
        device: &DeviceBackend,
        tensor: &'a Tensor,
        argument: &'static str,
    ) -> Result<Self, OpError> {
        match &device.place {
            #[cfg(feature = "emu")]
            Place::Emu => Ok(Self::Host(F32View::of(tensor, argument)?)),
            #[cfg(feature = "cuda")]
            Place::Cuda(_) => Self::of_cuda(tensor, argument),
        }
    }

    #[cfg(feature = "cuda")]
    fn of_cuda(tensor: &'a Tensor, argument: &'static str) -> Result<Self, OpError> {
        let range = contiguous_f32(tensor, argument)?;
        let (storage, _) = tensor.storage_and_layout();
        match &*storage {
            Storage::Cuda(cuda) if cuda.as_cuda_slice::<f32>()?.len() >= range.end => {
                Ok(Self::Cuda { storage, range })
            }
            _ => Err(OpError::Device { argument }),
        }
    }

    /// As kernels see it.
    ///
    /// # Errors
    /// [`OpError::Candle`] when the storage is not what it was.
    pub(super) fn view(&self) -> Result<View<'_>, OpError> {
        match self {
            #[cfg(feature = "emu")]
            Self::Host(elements) => Ok(View::on_host(elements)),
            #[cfg(feature = "cuda")]
            Self::Cuda { storage, range } => match &**storage {
                Storage::Cuda(cuda) => {
                    let address = super::cuda::address(cuda.as_cuda_slice::<f32>()?);
                    let start = address + (range.start * size_of::<f32>()) as u64;
                    // SAFETY: the slice reaches past the range (checked), and lives and stays unwritten while its lock is held.
                    Ok(unsafe { View::from_raw(start, range.len(), longwick_kernels::Dtype::F32) })
                }
                _ => Err(OpError::Device { argument: "tensor" }),
            },
        }
    }
}

/// A new f32 tensor of the device, which a kernel fills.
pub(super) enum Output {
    #[cfg(feature = "emu")]
    Host(Vec<f32>),
    #[cfg(feature = "cuda")]
    Cuda { slice: CudaSlice<f32>, device: CudaDevice, len: usize },
}

impl Output {
    /// `len` elements.
    ///
    /// # Errors
    /// [`OpError::Driver`] when there is no memory for them.
    pub(super) fn new(device: &DeviceBackend, len: usize) -> Result<Self, OpError> {
        match &device.place {
            #[cfg(feature = "emu")]
            Place::Emu => Ok(Self::Host(vec![0.0; len])),
            #[cfg(feature = "cuda")]
            Place::Cuda(place) => {
                Ok(Self::Cuda { slice: place.allocate(len)?, device: place.device.clone(), len })
            }
        }
    }

    /// As kernels see it.
    pub(super) fn view(&self) -> View<'_> {
        match self {
            #[cfg(feature = "emu")]
            Self::Host(elements) => View::on_host(elements),
            #[cfg(feature = "cuda")]
            // SAFETY: the slice lives as long as `self`; what fills it was queued before.
            Self::Cuda { slice, len, .. } => unsafe {
                View::from_raw(super::cuda::address(slice), *len, longwick_kernels::Dtype::F32)
            },
        }
    }

    /// As kernels fill it.
    pub(super) fn view_mut(&mut self) -> ViewMut<'_> {
        match self {
            #[cfg(feature = "emu")]
            Self::Host(elements) => ViewMut::on_host(elements),
            #[cfg(feature = "cuda")]
            // SAFETY: the slice lives as long as `self`, which is exclusively borrowed.
            Self::Cuda { slice, len, .. } => unsafe {
                ViewMut::from_raw(super::cuda::address(slice), *len, longwick_kernels::Dtype::F32)
            },
        }
    }

    /// As a tensor.
    ///
    /// # Errors
    /// [`OpError::Candle`] when the shape has another number of elements.
    pub(super) fn into_tensor(self, shape: impl Into<Shape>) -> Result<Tensor, OpError> {
        match self {
            #[cfg(feature = "emu")]
            Self::Host(elements) => crate::ops::tensors::from_elements(elements, shape),
            #[cfg(feature = "cuda")]
            Self::Cuda { slice, device, len } => {
                let shape = shape.into();
                if shape.elem_count() != len {
                    let expected = format!("a shape of {len} elements");
                    return Err(OpError::Shape { argument: "out", expected, found: shape.dims().to_vec() });
                }
                let storage = Storage::Cuda(CudaStorage::wrap_cuda_slice(slice, device));
                Ok(Tensor::from_storage(storage, shape, BackpropOp::none(), false))
            }
        }
    }
}
