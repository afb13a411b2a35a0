//! Lanes in plain Rust.
use super::{LANES, Lanes};
use std::array::from_fn;

/// Runs everywhere.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

/// Folds lane i with lane i + 8, then + 4, + 2, + 1.
#[inline(always)]
fn fold(mut a: [f32; LANES], op: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            a[lane] = op(a[lane], a[lane + width]);
        }
        width /= 2;
    }
    a[0]
}

impl Lanes for Portable {
    type F = [f32; LANES];
    type I = [i32; LANES];
    /// Of the 128-bit registers that most processors have, sixteen to thirty-two.
    const REGISTERS: usize = 4;

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        [value; LANES]
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Self::F {
        // SAFETY: the caller promises 16 readable elements.
        unsafe { from.cast::<Self::F>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: Self::F) {
        // SAFETY: the caller promises 16 writable elements.
        unsafe { to.cast::<Self::F>().write_unaligned(value) }
    }
    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] - b[i])
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] * b[i])
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    fn neg_fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        from_fn(|i| (-a[i]).mul_add(b[i], c[i]))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> Self::I {
        [value; LANES]
    }
    #[inline(always)]
    fn add_int(self, a: Self::I, b: Self::I) -> Self::I {
        from_fn(|i| a[i].wrapping_add(b[i]))
    }
    #[inline(always)]
    fn sub_int(self, a: Self::I, b: Self::I) -> Self::I {
        from_fn(|i| a[i].wrapping_sub(b[i]))
    }
    #[inline(always)]
    fn and_int(self, a: Self::I, b: Self::I) -> Self::I {
        from_fn(|i| a[i] & b[i])
    }
    #[inline(always)]
    fn or_int(self, a: Self::I, b: Self::I) -> Self::I {
        from_fn(|i| a[i] | b[i])
    }
    #[inline(always)]
    fn shl_int(self, a: Self::I, bits: u32) -> Self::I {
        a.map(|lane| lane << bits)
    }
    #[inline(always)]
    fn shr_int(self, a: Self::I, bits: u32) -> Self::I {
        a.map(|lane| ((lane as u32) >> bits) as i32)
    }
    #[inline(always)]
    fn sar_int(self, a: Self::I, bits: u32) -> Self::I {
        a.map(|lane| lane >> bits)
    }
    #[inline(always)]
    fn add_where(self, a: Self::F, mask: u16, b: Self::F) -> Self::F {
        from_fn(|i| if mask >> i & 1 == 1 { a[i] + b[i] } else { a[i] })
    }
    #[inline(always)]
    fn to_float(self, a: Self::I) -> Self::F {
        a.map(|lane| lane as f32)
    }
    #[inline(always)]
    fn nibble_to_float(self, a: Self::I) -> Self::F {
        a.map(|lane| (lane & 15) as f32)
    }
    #[inline(always)]
    fn upper_pair_to_float(self, a: Self::I) -> Self::F {
        a.map(|lane| (16 * (lane & 3) - 32) as f32)
    }
    #[inline(always)]
    fn to_bits(self, a: Self::F) -> Self::I {
        a.map(|lane| lane.to_bits() as i32)
    }
    #[inline(always)]
    fn from_bits(self, a: Self::I) -> Self::F {
        a.map(|lane| f32::from_bits(lane as u32))
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> Self::F {
        // SAFETY: the caller promises 16 readable elements.
        let halves = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        halves.map(|bits| half::f16::from_bits(bits).to_f32())
    }
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u16) -> Self::F {
        // SAFETY: the caller promises 16 readable elements.
        let halves = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        halves.map(|bits| f32::from_bits(u32::from(bits) << 16))
    }
    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> Self::I {
        // SAFETY: the caller promises 16 readable bytes.
        unsafe { from.cast::<[i8; LANES]>().read_unaligned() }.map(i32::from)
    }
    #[inline(always)]
    unsafe fn load_u8(self, from: *const u8) -> Self::I {
        // SAFETY: the caller promises 16 readable bytes.
        unsafe { from.cast::<[u8; LANES]>().read_unaligned() }.map(i32::from)
    }

    #[inline(always)]
    fn reduce_add(self, a: Self::F) -> f32 {
        fold(a, |x, y| x + y)
    }
    #[inline(always)]
    fn reduce_max(self, a: Self::F) -> f32 {
        fold(a, |x, y| if x > y { x } else { y })
    }
}
