//! The C interface, as `include/launch.h` and `include/params.h` declare it.
use std::ffi::{c_char, c_void};

pub(crate) const STATUS_OK: i32 = 0;
pub(crate) const STATUS_UNSUPPORTED_DTYPE: i32 = 1;
pub(crate) const STATUS_UNSUPPORTED_HEAD_DIM: i32 = 2;
pub(crate) const STATUS_LAUNCH_FAILED: i32 = 4;

/// `LongwickStream`.
#[repr(C)]
pub(crate) struct RawStream {
    pub(crate) launch: unsafe extern "C" fn(*mut c_void, *const c_void) -> i32,
    pub(crate) context: *mut c_void,
}

/// `LongwickEmuContext`.
#[repr(C)]
pub(crate) struct EmuContext {
    pub(crate) order: u32,
    pub(crate) seed: u64,
    pub(crate) message: [u8; 512],
}

unsafe extern "C" {
    pub(crate) fn longwick_emu_launch(context: *mut c_void, launch: *const c_void) -> i32;
    pub(crate) fn longwick_emu_allocate(bytes: usize) -> *mut u8;
    pub(crate) fn longwick_emu_free(memory: *mut u8, bytes: usize);
    pub(crate) fn longwick_emu_planted(
        name: *const c_char,
        input: *const f32,
        output: *mut f32,
        stream: *const RawStream,
    ) -> i32;
}
