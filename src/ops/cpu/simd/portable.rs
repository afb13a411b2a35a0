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

/// The lower half of a lane.
#[inline(always)]
fn low(lane: i32) -> i16 {
    lane as i16
}

/// The upper half of a lane.
#[inline(always)]
fn high(lane: i32) -> i16 {
    (lane >> 16) as i16
}

/// A lane of two halves.
#[inline(always)]
fn pair(low: i16, high: i16) -> i32 {
    i32::from(low as u16) | i32::from(high) << 16
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
    unsafe fn load_int(self, from: *const i32) -> Self::I {
        // SAFETY: the caller promises 16 readable elements.
        unsafe { from.cast::<Self::I>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store_int(self, to: *mut i32, value: Self::I) {
        // SAFETY: the caller promises 16 writable elements.
        unsafe { to.cast::<Self::I>().write_unaligned(value) }
    }
    #[inline(always)]
    unsafe fn store_low_halves(self, to: *mut i16, value: Self::I) {
        // SAFETY: the caller promises 16 writable elements.
        unsafe { to.cast::<[i16; LANES]>().write_unaligned(value.map(|lane| lane as i16)) }
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
    fn sar_int(self, a: Self::I, bits: u32) -> Self::I {
        a.map(|lane| lane >> bits)
    }
    #[inline(always)]
    fn max_int(self, a: Self::I, b: Self::I) -> Self::I {
        from_fn(|i| a[i].max(b[i]))
    }
    #[inline(always)]
    fn add_pairs(self, a: Self::I, b: Self::I) -> Self::I {
        from_fn(|i| pair(low(a[i]).wrapping_add(low(b[i])), high(a[i]).wrapping_add(high(b[i]))))
    }
    #[inline(always)]
    fn add_pairs_where(self, a: Self::I, mask: u32, b: Self::I) -> Self::I {
        let sum = self.add_pairs(a, b);
        from_fn(|i| {
            let chosen = mask >> (2 * i);
            pair(
                low(if chosen & 1 == 1 { sum[i] } else { a[i] }),
                high(if chosen & 2 == 2 { sum[i] } else { a[i] }),
            )
        })
    }
    #[inline(always)]
    fn dot_pairs(self, sum: Self::I, a: Self::I, b: Self::I) -> Self::I {
        from_fn(|i| {
            let products = [(low(a[i]), low(b[i])), (high(a[i]), high(b[i]))];
            products.into_iter().fold(sum[i], |sum, (a, b)| sum.wrapping_add(i32::from(a) * i32::from(b)))
        })
    }
    #[inline(always)]
    fn to_float(self, a: Self::I) -> Self::F {
        a.map(|lane| lane as f32)
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
    unsafe fn load_i8_pairs(self, from: *const i8) -> Self::I {
        // SAFETY: the caller promises 32 readable bytes.
        let bytes = unsafe { from.cast::<[[i8; 2]; LANES]>().read_unaligned() };
        bytes.map(|[low, high]| pair(low.into(), high.into()))
    }
    #[inline(always)]
    unsafe fn look_up_nibbles(self, from: *const u8, table: &[i8; 16]) -> Self::I {
        // SAFETY: the caller promises 16 readable bytes.
        let bytes = unsafe { from.cast::<[u8; LANES]>().read_unaligned() };
        bytes.map(|byte| pair(table[usize::from(byte & 15)].into(), table[usize::from(byte >> 4)].into()))
    }

    #[inline(always)]
    fn reduce_add(self, a: Self::F) -> f32 {
        fold(a, |x, y| x + y)
    }
    #[inline(always)]
    fn reduce_max(self, a: Self::F) -> f32 {
        fold(a, |x, y| if x > y { x } else { y })
    }
    #[inline(always)]
    fn reduce_max_int(self, a: Self::I) -> i32 {
        a.into_iter().fold(i32::MIN, i32::max)
    }
}
