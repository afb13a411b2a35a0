//! What CUDA has of its own: the device and its one stream, and what candle computes on it.
mod elementwise;
mod matrix;
mod pool;

pub(in crate::ops) use elementwise::{add, scale, select_rows, sigmoid_mul, soft_cap};
pub(in crate::ops) use matrix::CudaMatrix;
pub(in crate::ops) use pool::CudaPool;

use crate::ops::OpError;
use candle_core::{
    CudaDevice,
    cuda::cudarc::driver::{
        CudaContext, CudaSlice, CudaStream, DevicePtr, DeviceRepr, DriverError, result, sys,
    },
};
use longwick_kernels::{CudaKernels, Stream};
use std::sync::Arc;

/// A device with its one stream: candle's products, our kernels and all copies go over it, in order.
pub(in crate::ops) struct CudaPlace {
    pub(super) device: CudaDevice,
    stream: Arc<CudaStream>,
    ordinal: usize,
    capability: (i32, i32),
}

impl CudaPlace {
    /// The device of this number, and its stream for kernels.
    ///
    /// # Errors
    /// [`OpError::Driver`] when there is none; [`OpError::Kernel`] when it is older than sm_80.
    pub(super) fn open(ordinal: usize) -> Result<(Self, Stream), OpError> {
        let device =
            CudaDevice::new_with_stream(ordinal).map_err(|error| refused(ordinal, error.to_string()))?;
        // SAFETY: all that is made of this device lives on its one stream, so that nothing is left to events.
        unsafe { device.disable_event_tracking() };
        let stream = device.cuda_stream();
        keep_freed_memory(stream.context(), ordinal).map_err(|error| refused(ordinal, error.to_string()))?;
        let capability =
            stream.context().compute_capability().map_err(|error| refused(ordinal, error.to_string()))?;
        let kernels = Arc::new(CudaKernels::load(stream.context())?);
        // SAFETY: views come from tensors, pools and lists of this device, which are freed on this same stream, after the launches
        // that use them.
        let kernel_stream = unsafe { Stream::cuda(kernels, Arc::clone(&stream)) };
        Ok((Self { device, stream, ordinal, capability }, kernel_stream))
    }

    /// `cuda/sm_89`.
    pub(super) fn arithmetic(&self) -> String {
        let (major, minor) = self.capability;
        format!("cuda/sm_{major}{minor}")
    }

    /// `NVIDIA H200`.
    pub(super) fn maker_name(&self) -> Result<String, OpError> {
        self.stream.context().name().map_err(|error| self.refused(error))
    }

    /// Free bytes of its memory.
    pub(super) fn free_memory(&self) -> Result<u64, OpError> {
        let (free, _) = self.stream.context().mem_get_info().map_err(|error| self.refused(error))?;
        Ok(free as u64)
    }

    /// An error of the driver.
    pub(super) fn refused(&self, error: impl ToString) -> OpError {
        refused(self.ordinal, error.to_string())
    }

    /// Copies a list over.
    pub(super) fn send(&self, words: &[u32]) -> Result<CudaSlice<u32>, OpError> {
        // The driver refuses an allocation of nothing.
        let words = if words.is_empty() { &[0] } else { words };
        self.stream.clone_htod(words).map_err(|error| self.refused(error))
    }

    /// Memory that a kernel or a copy fills before anything reads it.
    pub(super) fn allocate<T: DeviceRepr>(&self, len: usize) -> Result<CudaSlice<T>, OpError> {
        // SAFETY: `Output` and workspaces are filled by the launch that they are allocated for.
        unsafe { self.stream.alloc(len.max(1)) }.map_err(|error| self.refused(error))
    }
}

/// Lets the driver's pool keep what tensors free: by default it goes back to the system whenever the stream is waited for, once a step.
fn keep_freed_memory(context: &CudaContext, ordinal: usize) -> Result<(), DriverError> {
    context.bind_to_thread()?;
    let mut threshold = u64::MAX;
    let attribute = sys::CUmemPool_attribute_enum::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    let device = result::device::get(ordinal as i32)?;
    // SAFETY: the device is the driver's, the pool is the device's, and the attribute is a 64-bit number.
    unsafe {
        let pool = result::device::get_default_mem_pool(device)?;
        result::mem_pool::set_attribute(pool, attribute, (&raw mut threshold).cast())
    }
}

fn refused(ordinal: usize, reason: String) -> OpError {
    OpError::Driver { ordinal, reason }
}

/// Where a slice begins.
///
/// The guard that says when the address was used goes at once: one stream keeps the order, and events are off.
pub(super) fn address<T>(slice: &CudaSlice<T>) -> u64 {
    let (address, _guard) = slice.device_ptr(slice.stream());
    address
}
