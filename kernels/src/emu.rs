//! What tests need of the emulator beside a stream: orders, memory that faults past its end, and how much work it did.
use crate::{KernelError, Stream, ffi};
use std::ffi::{CStr, CString};

/// In which order the threads of a block, and the blocks of a grid, run. A sound kernel gives the same bits in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Ascending.
    Forward,
    /// Descending.
    Reverse,
    /// A new permutation at each turn, drawn from the seed.
    Seeded(u64),
}

impl Order {
    /// One of each.
    pub const ALL: [Self; 3] = [Self::Forward, Self::Reverse, Self::Seeded(7)];
}

/// Thread blocks that were run on the calling thread so far, of the kernels whose names begin with `prefix`.
pub fn blocks_run(prefix: &CStr) -> u64 {
    // SAFETY: the prefix ends in a zero byte, and the emulator only reads it.
    unsafe { ffi::longwick_emu_blocks_run(prefix.as_ptr()) }
}

/// Zeroed memory whose end (rounded up to 16 bytes) is followed by an inaccessible page, as is its beginning by one before.
///
/// Pages that nothing touches cost nothing, so that a pool may be larger than the machine.
pub struct GuardedMemory {
    address: *mut u8,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for GuardedMemory {}
// SAFETY: a shared borrow only reads.
unsafe impl Sync for GuardedMemory {}

impl GuardedMemory {
    /// # Errors
    /// [`KernelError::Value`] when the system refuses the address space.
    pub fn new(bytes: usize) -> Result<Self, KernelError> {
        // SAFETY: any size may be asked for.
        let address = unsafe { ffi::longwick_emu_allocate(bytes) };
        if address.is_null() {
            return Err(KernelError::value("bytes", "a size that the system can map", bytes));
        }
        Ok(Self { address, bytes })
    }

    /// A copy of `elements`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn copy_of<T: crate::Element>(elements: &[T]) -> Result<Self, KernelError> {
        let memory = Self::new(size_of_val(elements))?;
        // SAFETY: the memory has room for the elements and begins on 16 bytes.
        unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr(), memory.address.cast(), elements.len()) };
        Ok(memory)
    }

    /// As elements.
    pub fn elements<T: crate::Element>(&self) -> &[T] {
        // SAFETY: the memory is zeroed, begins on 16 bytes, and every bit pattern is an element.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.bytes / size_of::<T>()) }
    }

    /// As elements, to be written.
    pub fn elements_mut<T: crate::Element>(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.bytes / size_of::<T>()) }
    }
}

impl Drop for GuardedMemory {
    fn drop(&mut self) {
        // SAFETY: the pair came from the allocation.
        unsafe { ffi::longwick_emu_free(self.address, self.bytes) };
    }
}

/// Runs one of the emulator's own test kernels, each of which (but their sound twins) breaks one rule.
///
/// # Safety
/// The kernels access memory wrongly on purpose; `input` and `output` must be what the kernel's comment says.
///
/// # Errors
/// [`KernelError::Launch`] says what the emulator caught.
#[doc(hidden)]
pub unsafe fn run_planted(
    stream: &mut Stream,
    name: &str,
    input: *const f32,
    output: *mut f32,
) -> Result<(), KernelError> {
    let name =
        CString::new(name).map_err(|_| KernelError::value("name", "a name without a zero byte", name))?;
    // SAFETY: passed on to the caller.
    stream.submit("planted", |raw| unsafe { ffi::longwick_emu_planted(name.as_ptr(), input, output, raw) })
}
