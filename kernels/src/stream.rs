//! Where launches go.
#[cfg(feature = "cuda")]
use crate::cuda::{self, CudaKernels, CudaPlace};
#[cfg(feature = "emu")]
use crate::emu::Order;
use crate::{KernelError, ffi};
#[cfg(feature = "cuda")]
use std::sync::Arc;

/// An ordered queue of launches.
pub struct Stream {
    place: Place,
}

enum Place {
    #[cfg(feature = "emu")]
    Emu(Box<ffi::EmuContext>),
    #[cfg(feature = "cuda")]
    Cuda(Box<CudaPlace>),
}

impl Place {
    fn raw(&mut self) -> ffi::RawStream {
        match self {
            #[cfg(feature = "emu")]
            Self::Emu(context) => ffi::RawStream {
                launch: ffi::longwick_emu_launch,
                context: std::ptr::from_mut(&mut **context).cast(),
            },
            #[cfg(feature = "cuda")]
            Self::Cuda(place) => {
                ffi::RawStream { launch: cuda::launch, context: std::ptr::from_mut(&mut **place).cast() }
            }
        }
    }

    /// What the last failed launch said.
    fn message(&self) -> String {
        match self {
            #[cfg(feature = "emu")]
            Self::Emu(context) => {
                let text = context.message.iter().take_while(|&&byte| byte != 0);
                String::from_utf8_lossy(&text.copied().collect::<Vec<u8>>()).into_owned()
            }
            #[cfg(feature = "cuda")]
            Self::Cuda(place) => place.message.clone(),
        }
    }
}

impl Stream {
    /// The emulator: every launch runs at once, on the calling thread.
    #[cfg(feature = "emu")]
    pub fn emu(order: Order) -> Self {
        let (order, seed) = match order {
            Order::Forward => (0, 0),
            Order::Reverse => (1, 0),
            Order::Seeded(seed) => (2, seed),
        };
        Self { place: Place::Emu(Box::new(ffi::EmuContext { order, seed, message: [0; 512] })) }
    }

    /// A stream of a CUDA device. A launch that returns is queued, not done.
    ///
    /// # Safety
    /// Every view that an operation is given with this stream must lie in the device's memory, and stay borrowed until the launch is
    /// done.
    #[cfg(feature = "cuda")]
    pub unsafe fn cuda(kernels: Arc<CudaKernels>, stream: Arc<cudarc::driver::CudaStream>) -> Self {
        Self { place: Place::Cuda(Box::new(CudaPlace::new(kernels, stream))) }
    }

    /// Calls a launcher and turns its status into a result.
    pub(crate) fn submit(
        &mut self,
        operation: &'static str,
        launcher: impl FnOnce(*const ffi::RawStream) -> i32,
    ) -> Result<(), KernelError> {
        let raw = self.place.raw();
        let message = match launcher(&raw) {
            ffi::STATUS_OK => return Ok(()),
            ffi::STATUS_UNSUPPORTED_DTYPE => {
                return Err(KernelError::Unsupported { operation, what: "these element types".to_owned() });
            }
            ffi::STATUS_UNSUPPORTED_HEAD_DIM => {
                return Err(KernelError::Unsupported { operation, what: "this head size".to_owned() });
            }
            ffi::STATUS_LAUNCH_FAILED => self.place.message(),
            status => format!("the launcher refused an argument (status {status})"),
        };
        Err(KernelError::Launch { operation, message })
    }
}
