//! Items of one size in one allocation of the device.
use super::{CudaPlace, address};
use crate::ops::OpError;
use candle_core::cuda::cudarc::driver::{CudaSlice, CudaStream, result};
use longwick_kernels::{Dtype, View, ViewMut};
use std::{ops::Range, sync::Arc};

/// Zeroed bytes of the device.
pub(in crate::ops) struct CudaPool {
    bytes: CudaSlice<u8>,
    stream: Arc<CudaStream>,
    ordinal: usize,
}

impl CudaPool {
    /// # Errors
    /// [`OpError::Memory`] when the device has not so many.
    pub(in crate::ops) fn new(place: &CudaPlace, what: &'static str, len: usize) -> Result<Self, OpError> {
        let refused = |error: result::DriverError| OpError::Memory {
            what,
            bytes: len as u64,
            reason: error.to_string(),
        };
        let bytes = place.stream.alloc_zeros(len.max(1)).map_err(refused)?;
        Ok(Self { bytes, stream: Arc::clone(&place.stream), ordinal: place.ordinal })
    }

    fn refused(&self, error: result::DriverError) -> OpError {
        OpError::Driver { ordinal: self.ordinal, reason: error.to_string() }
    }

    /// As kernels read it.
    pub(in crate::ops) fn view(&self) -> View<'_> {
        // SAFETY: the bytes are there as long as `self`; writes are queued on the same stream.
        unsafe { View::from_raw(address(&self.bytes), self.bytes.len(), Dtype::Fp8E4m3) }
    }

    /// As kernels write it.
    pub(in crate::ops) fn view_mut(&mut self) -> ViewMut<'_> {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { ViewMut::from_raw(address(&self.bytes), self.bytes.len(), Dtype::Fp8E4m3) }
    }

    /// Copies `len` bytes between two places that do not overlap, or are the same.
    pub(in crate::ops) fn copy_within(&mut self, from: Range<usize>, to: usize) -> Result<(), OpError> {
        assert!(from.end <= self.bytes.len() && to + from.len() <= self.bytes.len(), "{from:?} to {to}");
        let base = address(&self.bytes);
        self.stream.context().bind_to_thread().map_err(|error| self.refused(error))?;
        // SAFETY: both ranges lie in the allocation, and the copy is queued behind what wrote the first.
        let copied = unsafe {
            let (from_address, to) = (base + from.start as u64, base + to as u64);
            result::memcpy_dtod_async(to, from_address, from.len(), self.stream.cu_stream())
        };
        copied.map_err(|error| self.refused(error))
    }

    /// A copy on the host, once all that is queued is done.
    pub(in crate::ops) fn read(&self, range: Range<usize>) -> Result<Vec<u8>, OpError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        self.stream.clone_dtoh(&self.bytes.slice(range)).map_err(|error| self.refused(error))
    }

    /// Copies bytes of the host over, behind what is queued.
    pub(in crate::ops) fn write(&mut self, start: usize, bytes: &[u8]) -> Result<(), OpError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let stream = Arc::clone(&self.stream);
        let written = stream.memcpy_htod(bytes, &mut self.bytes.slice_mut(start..start + bytes.len()));
        written.map_err(|error| self.refused(error))
    }
}
