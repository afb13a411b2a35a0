//! Memory that the linear layer keeps from call to call: fresh memory costs a page fault every 4 KiB.
use super::fixed::rows::FixedBuffer;
use std::sync::{Mutex, PoisonError};

/// The buffers of the last call, where nobody else has them; else new ones.
#[derive(Default)]
pub(crate) struct RowBuffers {
    float: Mutex<Vec<f32>>,
    fixed: Mutex<FixedBuffer>,
}

fn take<T: Default>(kept: &Mutex<T>) -> T {
    std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner))
}

fn keep<T>(kept: &Mutex<T>, buffer: T) {
    *kept.lock().unwrap_or_else(PoisonError::into_inner) = buffer;
}

impl RowBuffers {
    /// At least `len` elements of any value.
    pub(crate) fn take_float(&self, len: usize) -> Vec<f32> {
        let mut rows = take(&self.float);
        if rows.len() < len {
            rows.resize(len, 0.0);
        }
        rows
    }

    /// Gives the buffer of [`Self::take_float`] back.
    pub(crate) fn keep_float(&self, rows: Vec<f32>) {
        keep(&self.float, rows);
    }

    /// A buffer of any size.
    pub(crate) fn take_fixed(&self) -> FixedBuffer {
        take(&self.fixed)
    }

    /// Gives the buffer of [`Self::take_fixed`] back.
    pub(crate) fn keep_fixed(&self, rows: FixedBuffer) {
        keep(&self.fixed, rows);
    }
}
