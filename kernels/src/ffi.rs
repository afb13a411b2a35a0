//! The C interface, as `include/launch.h` and `include/params.h` declare it. Addresses are 64-bit numbers here.
use crate::KernelError;
#[cfg(feature = "emu")]
use std::ffi::c_char;
use std::ffi::c_void;

pub(crate) const STATUS_OK: i32 = 0;
pub(crate) const STATUS_UNSUPPORTED_DTYPE: i32 = 1;
pub(crate) const STATUS_UNSUPPORTED_HEAD_DIM: i32 = 2;
pub(crate) const STATUS_LAUNCH_FAILED: i32 = 4;

/// A count as the kernels take it.
pub(crate) fn count(argument: &'static str, number: usize) -> Result<u32, KernelError> {
    // One below half the range, so that sums of two counts stay in 32 bits.
    u32::try_from(number)
        .ok()
        .filter(|&number| number < 1 << 31)
        .ok_or_else(|| KernelError::value(argument, "below 2^31", number))
}

/// One stage of attention.
pub(crate) type AttentionLauncher = unsafe extern "C" fn(*const AttentionParams, *const RawStream) -> i32;

macro_rules! structs {
    ($($(#[$doc:meta])* $name:ident as $c_name:literal { $($field:ident: $type:ty),* $(,)? })*) => {
        $($(#[$doc])* #[repr(C)] #[derive(Debug, Clone, Copy)]
        pub(crate) struct $name { $(pub(crate) $field: $type),* })*

        #[cfg(test)]
        /// C names and sizes here, for the comparison with the other side.
        pub(crate) const STRUCT_SIZES: &[(&std::ffi::CStr, usize)] = &[$(($c_name, size_of::<$name>())),*];
    };
}

structs! {
    RawStream as c"LongwickStream" {
        launch: unsafe extern "C" fn(*mut c_void, *const c_void) -> i32,
        context: *mut c_void,
    }
    RmsNormParams as c"LongwickRmsNormParams" {
        x: u64, residual: u64, weight: u64, sum: u64, out: u64,
        rows: u32, dim: u32, epsilon: f32, dtype: u32,
    }
    RopeAnglesParams as c"LongwickRopeAnglesParams" {
        positions: u64, inverse_frequencies: u64, cosines: u64, sines: u64,
        tokens: u32, pairs: u32, attention_factor: f32, reserved: u32,
    }
    RopeParams as c"LongwickRopeParams" {
        x: u64, norm_weight: u64, cosines: u64, sines: u64, out: u64,
        tokens: u32, heads: u32, head_dim: u32, pairs: u32, epsilon: f32, dtype: u32, layout: u32, reserved: u32,
    }
    GatedParams as c"LongwickGatedParams" {
        gate: u64, up: u64, out: u64, row_stride: i64,
        rows: u32, dim: u32, activation: u32, alpha: f32, limit: f32, dtype: u32,
    }
    PagedKv as c"LongwickPagedKv" {
        keys: u64, values: u64, key_scales: u64, value_scales: u64,
        block_stride: i64, head_stride: i64, scale_block_stride: i64, scale_head_stride: i64,
        num_blocks: u32, block_size: u32, kv_heads: u32, head_dim: u32, dtype: u32, block_shift: u32,
    }
    KvWriteParams as c"LongwickKvWriteParams" {
        keys: u64, values: u64, slots: u64, cache: PagedKv, tokens: u32, dtype: u32,
    }
    AttentionParams as c"LongwickAttentionParams" {
        q: u64, out: u64, log_sum_exp: u64, sinks: u64, plan: u64, partial_sums: u64, partial_stats: u64,
        cache: PagedKv,
        first_item: u32, num_items: u32, positions: u32, q_heads: u32, window: u32,
        scale: f32, soft_cap: f32, dtype: u32, query_dtype: u32,
    }
}

unsafe extern "C" {
    #[cfg(test)]
    pub(crate) fn longwick_struct_size(name: *const std::ffi::c_char) -> usize;
    pub(crate) fn longwick_rms_norm(params: *const RmsNormParams, stream: *const RawStream) -> i32;
    pub(crate) fn longwick_rope_angles(params: *const RopeAnglesParams, stream: *const RawStream) -> i32;
    pub(crate) fn longwick_rope(params: *const RopeParams, stream: *const RawStream) -> i32;
    pub(crate) fn longwick_gated(params: *const GatedParams, stream: *const RawStream) -> i32;
    pub(crate) fn longwick_kv_write(params: *const KvWriteParams, stream: *const RawStream) -> i32;

    pub(crate) fn longwick_attention_rows(
        dtype: u32,
        cache_dtype: u32,
        head_dim: u32,
        is_narrow: bool,
    ) -> u32;
    pub(crate) fn longwick_paged_prefill_attention(
        params: *const AttentionParams,
        stream: *const RawStream,
    ) -> i32;
    pub(crate) fn longwick_paged_decode_attention(
        params: *const AttentionParams,
        stream: *const RawStream,
    ) -> i32;
    pub(crate) fn longwick_merge_attention(params: *const AttentionParams, stream: *const RawStream) -> i32;
}

/// `LongwickEmuContext`.
#[cfg(feature = "emu")]
#[repr(C)]
pub(crate) struct EmuContext {
    pub(crate) order: u32,
    pub(crate) seed: u64,
    pub(crate) message: [u8; 512],
}

#[cfg(feature = "emu")]
unsafe extern "C" {
    pub(crate) fn longwick_emu_launch(context: *mut c_void, launch: *const c_void) -> i32;
    pub(crate) fn longwick_emu_blocks_run(prefix: *const c_char) -> u64;
    pub(crate) fn longwick_emu_allocate(bytes: usize) -> *mut u8;
    pub(crate) fn longwick_emu_free(memory: *mut u8, bytes: usize);
    pub(crate) fn longwick_emu_planted(
        name: *const c_char,
        input: *const f32,
        output: *mut f32,
        stream: *const RawStream,
    ) -> i32;
}

#[cfg(test)]
mod tests {
    #[test]
    fn structs_have_one_size_on_both_sides() {
        for (name, size) in super::STRUCT_SIZES {
            // SAFETY: the name ends in a zero byte.
            let found = unsafe { super::longwick_struct_size(name.as_ptr()) };
            assert_eq!(found, *size, "{name:?}");
        }
        #[cfg(feature = "emu")]
        // SAFETY: as above.
        let found = unsafe { super::longwick_struct_size(c"LongwickEmuContext".as_ptr()) };
        #[cfg(feature = "emu")]
        assert_eq!(found, size_of::<super::EmuContext>());
        // The plan lays these out as words.
        for (name, words) in [(c"LongwickAttentionItem", 8), (c"LongwickMergeItem", 4)] {
            // SAFETY: as above.
            assert_eq!(unsafe { super::longwick_struct_size(name.as_ptr()) }, 4 * words, "{name:?}");
        }
        // SAFETY: as above.
        assert_eq!(unsafe { super::longwick_struct_size(c"Unknown".as_ptr()) }, 0);
    }
}
