//! The kernels' binding: one text for a GPU and for the emulator, which differ in their buffers and streams alone.
//!
//! Here, one file an operation: it takes candle tensors, gives the kernels views of them, and wraps what they write. On the emulator
//! tensors lie in host memory, so that what has no kernel (products, sums) runs on the CPU's threads; on CUDA candle does it.
//!
//! Architecture invariant: nothing is computed on the host for CUDA but what says so (weights while they load).
mod attention;
#[cfg(feature = "cuda")]
pub(super) mod cuda;
mod gated;
mod kv_write;
mod memory;
mod norm;
mod rope;
mod step;
mod support;
mod tensors;

pub(super) use attention::paged_attention;
pub(super) use gated::gated;
pub(super) use kv_write::kv_write;
pub(super) use norm::{add_rms_norm, rms_norm};
pub(super) use rope::{DeviceAngles, rope};
pub(super) use step::DeviceTables;
pub(super) use support::check_attention;

use super::{CpuBackend, OpError};
use longwick_kernels::{KernelError, Stream};
use std::sync::{Arc, Mutex, PoisonError};

/// Where kernels run.
enum Place {
    /// On the calling thread, in host memory.
    #[cfg(feature = "emu")]
    Emu,
    /// On a GPU, in its memory.
    #[cfg(feature = "cuda")]
    Cuda(cuda::CudaPlace),
}

/// A device, its one stream, and the host's threads beside it.
pub struct DeviceBackend {
    place: Place,
    stream: Mutex<Stream>,
    host: Arc<CpuBackend>,
}

impl DeviceBackend {
    /// The emulator; `host` computes what has no kernel.
    #[cfg(feature = "emu")]
    pub(super) fn emu(host: Arc<CpuBackend>) -> Self {
        let stream = Mutex::new(Stream::emu(longwick_kernels::emu::Order::Forward));
        Self { place: Place::Emu, stream, host }
    }

    /// The GPU of this number; `host` loads weights.
    ///
    /// # Errors
    /// [`OpError::Driver`] when there is none; [`OpError::Kernel`] when it is older than sm_80.
    #[cfg(feature = "cuda")]
    pub(super) fn cuda(ordinal: usize, host: Arc<CpuBackend>) -> Result<Self, OpError> {
        let (place, stream) = cuda::CudaPlace::open(ordinal)?;
        Ok(Self { place: Place::Cuda(place), stream: Mutex::new(stream), host })
    }

    /// The GPU, where it is one.
    #[cfg(feature = "cuda")]
    pub(super) fn as_cuda(&self) -> Option<&cuda::CudaPlace> {
        match &self.place {
            #[cfg(feature = "emu")]
            Place::Emu => None,
            Place::Cuda(place) => Some(place),
        }
    }

    /// The host's threads.
    pub(super) fn host(&self) -> &Arc<CpuBackend> {
        &self.host
    }

    /// `emu` or `cuda`.
    pub(super) fn name(&self) -> &'static str {
        match &self.place {
            #[cfg(feature = "emu")]
            Place::Emu => "emu",
            #[cfg(feature = "cuda")]
            Place::Cuda(_) => "cuda",
        }
    }

    /// As [`super::Backend::arithmetic`].
    pub(super) fn arithmetic(&self) -> String {
        match &self.place {
            #[cfg(feature = "emu")]
            Place::Emu => self.name().to_owned(),
            #[cfg(feature = "cuda")]
            Place::Cuda(place) => place.arithmetic(),
        }
    }

    /// As [`super::Backend::is_batch_invariant`].
    pub(super) fn is_batch_invariant(&self) -> bool {
        match &self.place {
            // The kernels hold it by row, and so do the CPU's products.
            #[cfg(feature = "emu")]
            Place::Emu => true,
            #[cfg(feature = "cuda")]
            Place::Cuda(_) => false,
        }
    }

    /// As [`super::Backend::takes_empty_rows`].
    pub(super) fn takes_empty_rows(&self) -> bool {
        match &self.place {
            #[cfg(feature = "emu")]
            Place::Emu => true,
            #[cfg(feature = "cuda")]
            Place::Cuda(_) => false,
        }
    }

    /// Where activations live.
    pub(super) fn candle(&self) -> candle_core::Device {
        match &self.place {
            #[cfg(feature = "emu")]
            Place::Emu => candle_core::Device::Cpu,
            #[cfg(feature = "cuda")]
            Place::Cuda(place) => candle_core::Device::Cuda(place.device.clone()),
        }
    }

    /// As [`super::Backend::device_name`].
    pub(super) fn maker_name(&self) -> Result<Option<String>, OpError> {
        match &self.place {
            #[cfg(feature = "emu")]
            Place::Emu => Ok(None),
            #[cfg(feature = "cuda")]
            Place::Cuda(place) => place.maker_name().map(Some),
        }
    }

    /// As [`super::Backend::free_device_memory`].
    pub(super) fn free_memory(&self) -> Result<Option<u64>, OpError> {
        match &self.place {
            #[cfg(feature = "emu")]
            Place::Emu => Ok(None),
            #[cfg(feature = "cuda")]
            Place::Cuda(place) => place.free_memory().map(Some),
        }
    }

    /// Puts launches onto the stream.
    fn submit(&self, launch: impl FnOnce(&mut Stream) -> Result<(), KernelError>) -> Result<(), OpError> {
        // A stream holds no state between launches that a panic could leave half changed.
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(launch(&mut stream)?)
    }
}
