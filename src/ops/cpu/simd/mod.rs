//! Sixteen lanes of f32, the same bits on every instruction set.
//!
//! A kernel is written once as a [`Kernel`], generic over [`Lanes`]; [`dispatch`] runs it with the backend's instruction set.
//! Every operation of [`Lanes`] is an IEEE-754 operation rounded to nearest even or an exact one, so a kernel's result does
//! not depend on the instruction set.
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(test)]
mod tests;

use crate::ops::InstructionSet;

/// Number of lanes.
pub(crate) const LANES: usize = 16;

/// A token that proves an instruction set is there, with its operations on sixteen lanes.
///
/// Bodies that use it must be `#[inline(always)]` (closures too), so that they are compiled inside of [`dispatch`]'s wrapper.
// Every method takes the token, conversions too.
#[allow(clippy::wrong_self_convention)]
pub(crate) trait Lanes: Copy + Send + Sync + 'static {
    /// Sixteen f32.
    type F: Copy;
    /// Sixteen 32-bit integers.
    type I: Copy;
    /// How many [`Self::F`] the registers hold; kernels size their tiles by it.
    const REGISTERS: usize;

    /// `value` in all lanes.
    fn splat(self, value: f32) -> Self::F;
    /// Sixteen consecutive f32.
    ///
    /// # Safety
    /// `from` must be readable for 16 elements; any alignment.
    unsafe fn load(self, from: *const f32) -> Self::F;
    /// Writes sixteen consecutive f32.
    ///
    /// # Safety
    /// `to` must be writable for 16 elements; any alignment.
    unsafe fn store(self, to: *mut f32, value: Self::F);
    /// `a + b`.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`.
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `c - a * b`, rounded once.
    fn neg_fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `if a > b { a } else { b }`: `b` where either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `if a < b { a } else { b }`: `b` where either is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;

    /// `value` in all lanes.
    fn splat_int(self, value: i32) -> Self::I;
    /// Sixteen consecutive integers.
    ///
    /// # Safety
    /// `from` must be readable for 16 elements; any alignment.
    unsafe fn load_int(self, from: *const i32) -> Self::I;
    /// Writes sixteen consecutive integers.
    ///
    /// # Safety
    /// `to` must be writable for 16 elements; any alignment.
    unsafe fn store_int(self, to: *mut i32, value: Self::I);
    /// Writes the low sixteen bits of each lane.
    ///
    /// # Safety
    /// `to` must be writable for 16 elements; any alignment.
    unsafe fn store_low_halves(self, to: *mut i16, value: Self::I);
    /// Wrapping `a + b`.
    fn add_int(self, a: Self::I, b: Self::I) -> Self::I;
    /// Wrapping `a - b`.
    fn sub_int(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise and.
    fn and_int(self, a: Self::I, b: Self::I) -> Self::I;
    /// Bitwise or.
    fn or_int(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a << bits`, `bits` below 32.
    fn shl_int(self, a: Self::I, bits: u32) -> Self::I;
    /// `a >> bits`, the sign moving in, `bits` below 32.
    fn sar_int(self, a: Self::I, bits: u32) -> Self::I;
    /// The greater of `a` and `b`, as signed integers.
    fn max_int(self, a: Self::I, b: Self::I) -> Self::I;
    /// `value` in both halves of all lanes.
    #[inline(always)]
    fn splat_pair(self, value: i16) -> Self::I {
        let half = i32::from(value as u16);
        self.splat_int(half | half << 16)
    }
    /// Wrapping `a + b` of the signed halves of each lane.
    fn add_pairs(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a + b` in the halves whose bit of `mask` is set (the low half of lane 0 is the lowest bit), `a` in the others.
    fn add_pairs_where(self, a: Self::I, mask: u32, b: Self::I) -> Self::I;
    /// `sum + low(a) x low(b) + high(a) x high(b)`, of the signed halves of each lane. The two products' sum must fit an i32.
    fn dot_pairs(self, sum: Self::I, a: Self::I, b: Self::I) -> Self::I;
    /// The lanes' value as f32.
    fn to_float(self, a: Self::I) -> Self::F;
    /// The lanes' bits.
    fn to_bits(self, a: Self::F) -> Self::I;
    /// The f32 of these bits.
    fn from_bits(self, a: Self::I) -> Self::F;

    /// Sixteen half-precision floats, widened.
    ///
    /// # Safety
    /// `from` must be readable for 16 elements; any alignment.
    unsafe fn load_f16(self, from: *const u16) -> Self::F;
    /// Sixteen bfloat16, widened.
    ///
    /// # Safety
    /// `from` must be readable for 16 elements; any alignment.
    unsafe fn load_bf16(self, from: *const u16) -> Self::F;
    /// Sixteen signed bytes, widened.
    ///
    /// # Safety
    /// `from` must be readable for 16 bytes.
    unsafe fn load_i8(self, from: *const i8) -> Self::I;
    /// Sixteen unsigned bytes, widened.
    ///
    /// # Safety
    /// `from` must be readable for 16 bytes.
    unsafe fn load_u8(self, from: *const u8) -> Self::I;
    /// Thirty-two signed bytes, widened to the halves of the lanes.
    ///
    /// # Safety
    /// `from` must be readable for 32 bytes.
    unsafe fn load_i8_pairs(self, from: *const i8) -> Self::I;
    /// The entries of `table` for the nibbles of sixteen bytes, widened to the halves of the lanes: the low nibble's in the low half.
    ///
    /// # Safety
    /// `from` must be readable for 16 bytes.
    unsafe fn look_up_nibbles(self, from: *const u8, table: &[i8; 16]) -> Self::I;

    /// Sixteen e4m3 floats, widened; the code of NaN reads as 480.
    ///
    /// # Safety
    /// `from` must be readable for 16 bytes.
    #[inline(always)]
    unsafe fn load_f8_e4m3(self, from: *const u8) -> Self::F {
        // Moving exponent and mantissa into an f32's place leaves the bias 120 too low, for subnormals too. The signs spread over the
        // bits between.
        const SIGN_AND_MAGNITUDE: i32 = 0x87f0_0000_u32 as i32;
        const TWO_TO_THE_120: f32 = f32::from_bits((127 + 120) << 23);
        // SAFETY: as the caller promises.
        let codes = unsafe { self.load_i8(from.cast()) };
        let bits = self.and_int(self.shl_int(codes, 20), self.splat_int(SIGN_AND_MAGNITUDE));
        self.mul(self.from_bits(bits), self.splat(TWO_TO_THE_120))
    }

    /// The sum of the lanes: lane i with lane i + 8, then + 4, + 2, + 1.
    fn reduce_add(self, a: Self::F) -> f32;
    /// The greatest lane, in the order of [`Self::reduce_add`].
    fn reduce_max(self, a: Self::F) -> f32;
    /// The greatest lane.
    fn reduce_max_int(self, a: Self::I) -> i32;

    /// The lanes as an array.
    #[inline(always)]
    fn to_array(self, a: Self::F) -> [f32; LANES] {
        let mut array = [0.0; LANES];
        // SAFETY: the array holds 16 elements.
        unsafe { self.store(array.as_mut_ptr(), a) };
        array
    }

    /// The lanes of an array.
    #[inline(always)]
    fn from_array(self, array: &[f32; LANES]) -> Self::F {
        // SAFETY: the array holds 16 elements.
        unsafe { self.load(array.as_ptr()) }
    }

    /// The first elements of `from` (at most 16), `fill` in the other lanes.
    #[inline(always)]
    fn load_first(self, from: &[f32], fill: f32) -> Self::F {
        if from.len() >= LANES {
            // SAFETY: there are 16 elements.
            return unsafe { self.load(from.as_ptr()) };
        }
        let mut array = [fill; LANES];
        array[..from.len()].copy_from_slice(from);
        self.from_array(&array)
    }

    /// Writes the first lanes to `to`, at most 16.
    #[inline(always)]
    fn store_first(self, to: &mut [f32], a: Self::F) {
        if to.len() >= LANES {
            // SAFETY: there is room for 16 elements.
            return unsafe { self.store(to.as_mut_ptr(), a) };
        }
        to.copy_from_slice(&self.to_array(a)[..to.len()]);
    }

    /// e^x within 2 units in the last place; 0 from -104 down (so exactly 0 at minus infinity), infinity from 88.73 up, NaN at NaN.
    ///
    /// The integer part of x / ln 2 goes into the exponent in two steps, so that subnormal results come out rounded once.
    #[inline(always)]
    fn exp(self, x: Self::F) -> Self::F {
        // Adding 1.5 x 2^23 rounds to the nearest integer and leaves it in the low bits of the mantissa.
        const ROUNDER: f32 = 12_582_912.0;
        // ln 2 as a sum of two f32: the nearest one, and what it lacks.
        const LN_2_HIGH: f32 = std::f32::consts::LN_2;
        const LN_2_LOW: f32 = -1.904_654_2e-9;
        // (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2: a minimax fit, relative error of e^r below 4e-9.
        const TERMS: [f32; 5] = [0.5, 0.166_665_2, 0.041_668_4, 0.008_368_852, 0.001_381_432];
        let x = self.max(self.splat(-104.0), x);
        let x = self.min(self.splat(89.0), x);
        let rounder = self.splat(ROUNDER);
        let shifted = self.fma(x, self.splat(std::f32::consts::LOG2_E), rounder);
        let whole = self.sub(shifted, rounder);
        let r = self.neg_fma(whole, self.splat(LN_2_HIGH), x);
        let r = self.neg_fma(whole, self.splat(LN_2_LOW), r);
        let mut tail = self.splat(TERMS[4]);
        tail = self.fma(tail, r, self.splat(TERMS[3]));
        tail = self.fma(tail, r, self.splat(TERMS[2]));
        tail = self.fma(tail, r, self.splat(TERMS[1]));
        tail = self.fma(tail, r, self.splat(TERMS[0]));
        let value = self.fma(self.mul(r, r), tail, r);
        let value = self.add(value, self.splat(1.0));
        let exponent = self.sub_int(self.to_bits(shifted), self.splat_int(ROUNDER.to_bits() as i32));
        let half = self.sar_int(exponent, 1);
        let rest = self.sub_int(exponent, half);
        self.mul(self.mul(value, self.power_of_two(half)), self.power_of_two(rest))
    }

    /// 2^exponent, for exponents in -126..=127.
    #[inline(always)]
    fn power_of_two(self, exponent: Self::I) -> Self::F {
        self.from_bits(self.shl_int(self.add_int(exponent, self.splat_int(127)), 23))
    }
}

/// A kernel: what it works on is in its fields, what it does in [`Self::run`].
pub(crate) trait Kernel {
    /// What it returns.
    type Output;
    /// The body. Implementations must be `#[inline(always)]`.
    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// Runs `kernel` compiled for `instruction_set`.
///
/// # Panics
/// When this processor lacks the set, which a [`crate::ops::CpuBackend`] rules out.
#[inline]
pub(crate) fn dispatch<K: Kernel>(instruction_set: InstructionSet, kernel: K) -> K::Output {
    debug_assert!(instruction_set.is_available());
    match instruction_set {
        // SAFETY: `CpuBackend::new` takes only sets that the processor has.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx512 => unsafe { avx512::run(kernel) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        InstructionSet::Avx2 => unsafe { avx2::run(kernel) },
        _ => kernel.run(portable::Portable),
    }
}
