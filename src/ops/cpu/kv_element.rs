//! Elements of cached keys and values.
use super::simd::Lanes;
use float8::F8E4M3;
use half::bf16;

/// An element as pages hold it.
pub(super) trait KvElement: Copy + Send + Sync + 'static {
    /// Whether each token's head of keys, and of values, has a scale.
    const SCALED: bool = false;

    /// Rounded to nearest even.
    fn from_f32(value: f32) -> Self;

    /// Sixteen consecutive elements, widened.
    ///
    /// # Safety
    /// `from` must be readable for 16 elements.
    unsafe fn load<L: Lanes>(lanes: L, from: *const Self) -> L::F;
}

impl KvElement for f32 {
    fn from_f32(value: f32) -> Self {
        value
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(lanes: L, from: *const Self) -> L::F {
        // SAFETY: as the caller promises.
        unsafe { lanes.load(from) }
    }
}

impl KvElement for bf16 {
    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(lanes: L, from: *const Self) -> L::F {
        // SAFETY: as the caller promises; bf16 is a transparent u16.
        unsafe { lanes.load_bf16(from.cast()) }
    }
}

impl KvElement for F8E4M3 {
    const SCALED: bool = true;

    fn from_f32(value: f32) -> Self {
        Self::from_f32(value)
    }

    #[inline(always)]
    unsafe fn load<L: Lanes>(lanes: L, from: *const Self) -> L::F {
        // SAFETY: as the caller promises; the type is a transparent u8.
        unsafe { lanes.load_f8_e4m3(from.cast()) }
    }
}
