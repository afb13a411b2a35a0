//! Where launches go.
use crate::{KernelError, emu::Order, ffi};

/// An ordered queue of launches. Each operation is a free function that takes one.
pub struct Stream {
    context: ffi::EmuContext,
}

impl Stream {
    /// The emulator: every launch runs at once, on the calling thread.
    pub fn emu(order: Order) -> Self {
        let (order, seed) = match order {
            Order::Forward => (0, 0),
            Order::Reverse => (1, 0),
            Order::Seeded(seed) => (2, seed),
        };
        Self { context: ffi::EmuContext { order, seed, message: [0; 512] } }
    }

    /// Calls a launcher and turns its status into a result.
    pub(crate) fn submit(
        &mut self,
        operation: &'static str,
        launcher: impl FnOnce(*const ffi::RawStream) -> i32,
    ) -> Result<(), KernelError> {
        let raw = ffi::RawStream {
            launch: ffi::longwick_emu_launch,
            context: std::ptr::from_mut(&mut self.context).cast(),
        };
        match launcher(&raw) {
            ffi::STATUS_OK => Ok(()),
            ffi::STATUS_LAUNCH_FAILED => {
                let text = self.context.message.iter().take_while(|&&byte| byte != 0);
                let message = String::from_utf8_lossy(&text.copied().collect::<Vec<u8>>()).into_owned();
                Err(KernelError::Launch { operation, message })
            }
            ffi::STATUS_UNSUPPORTED_DTYPE => {
                Err(KernelError::Unsupported { operation, what: "these element types".to_owned() })
            }
            ffi::STATUS_UNSUPPORTED_HEAD_DIM => {
                Err(KernelError::Unsupported { operation, what: "this head size".to_owned() })
            }
            status => Err(KernelError::Launch {
                operation,
                message: format!("the launcher refused an argument (status {status})"),
            }),
        }
    }
}
