//! Lanes in two 256-bit registers.
use super::{Kernel, Lanes};
use std::arch::x86_64::*;

/// Proof that AVX2, FMA and F16C are there: only [`run`] makes one.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

/// Runs `kernel` with these instructions.
///
/// # Safety
/// The processor must have them.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

/// Lanes 0 to 7 and 8 to 15.
type Floats = [__m256; 2];
type Ints = [__m256i; 2];

// SAFETY of every block below: the token proves that the instructions are there; pointers are as the trait's caller promises.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Lanes for Avx2 {
    type F = Floats;
    type I = Ints;
    const REGISTERS: usize = 8;

    #[inline(always)]
    fn splat(self, value: f32) -> Floats {
        unsafe { [_mm256_set1_ps(value); 2] }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> Floats {
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: Floats) {
        unsafe {
            _mm256_storeu_ps(to, value[0]);
            _mm256_storeu_ps(to.add(8), value[1]);
        }
    }
    #[inline(always)]
    fn add(self, a: Floats, b: Floats) -> Floats {
        unsafe { [_mm256_add_ps(a[0], b[0]), _mm256_add_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn sub(self, a: Floats, b: Floats) -> Floats {
        unsafe { [_mm256_sub_ps(a[0], b[0]), _mm256_sub_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn mul(self, a: Floats, b: Floats) -> Floats {
        unsafe { [_mm256_mul_ps(a[0], b[0]), _mm256_mul_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn div(self, a: Floats, b: Floats) -> Floats {
        unsafe { [_mm256_div_ps(a[0], b[0]), _mm256_div_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn fma(self, a: Floats, b: Floats, c: Floats) -> Floats {
        unsafe { [_mm256_fmadd_ps(a[0], b[0], c[0]), _mm256_fmadd_ps(a[1], b[1], c[1])] }
    }
    #[inline(always)]
    fn neg_fma(self, a: Floats, b: Floats, c: Floats) -> Floats {
        unsafe { [_mm256_fnmadd_ps(a[0], b[0], c[0]), _mm256_fnmadd_ps(a[1], b[1], c[1])] }
    }
    #[inline(always)]
    fn max(self, a: Floats, b: Floats) -> Floats {
        unsafe { [_mm256_max_ps(a[0], b[0]), _mm256_max_ps(a[1], b[1])] }
    }
    #[inline(always)]
    fn min(self, a: Floats, b: Floats) -> Floats {
        unsafe { [_mm256_min_ps(a[0], b[0]), _mm256_min_ps(a[1], b[1])] }
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> Ints {
        unsafe { [_mm256_set1_epi32(value); 2] }
    }
    #[inline(always)]
    fn add_int(self, a: Ints, b: Ints) -> Ints {
        unsafe { [_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])] }
    }
    #[inline(always)]
    fn sub_int(self, a: Ints, b: Ints) -> Ints {
        unsafe { [_mm256_sub_epi32(a[0], b[0]), _mm256_sub_epi32(a[1], b[1])] }
    }
    #[inline(always)]
    fn and_int(self, a: Ints, b: Ints) -> Ints {
        unsafe { [_mm256_and_si256(a[0], b[0]), _mm256_and_si256(a[1], b[1])] }
    }
    #[inline(always)]
    fn or_int(self, a: Ints, b: Ints) -> Ints {
        unsafe { [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])] }
    }
    #[inline(always)]
    fn shl_int(self, a: Ints, bits: u32) -> Ints {
        unsafe {
            let bits = _mm256_set1_epi32(bits as i32);
            [_mm256_sllv_epi32(a[0], bits), _mm256_sllv_epi32(a[1], bits)]
        }
    }
    #[inline(always)]
    fn shr_int(self, a: Ints, bits: u32) -> Ints {
        unsafe {
            let bits = _mm256_set1_epi32(bits as i32);
            [_mm256_srlv_epi32(a[0], bits), _mm256_srlv_epi32(a[1], bits)]
        }
    }
    #[inline(always)]
    fn sar_int(self, a: Ints, bits: u32) -> Ints {
        unsafe {
            let bits = _mm256_set1_epi32(bits as i32);
            [_mm256_srav_epi32(a[0], bits), _mm256_srav_epi32(a[1], bits)]
        }
    }
    #[inline(always)]
    fn add_where(self, a: Floats, mask: u16, b: Floats) -> Floats {
        unsafe {
            let mask = _mm256_set1_epi32(i32::from(mask));
            let low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let high = _mm256_slli_epi32::<8>(low);
            let low_set = _mm256_cmpeq_epi32(_mm256_and_si256(mask, low), low);
            let high_set = _mm256_cmpeq_epi32(_mm256_and_si256(mask, high), high);
            let sum = self.add(a, b);
            [
                _mm256_blendv_ps(a[0], sum[0], _mm256_castsi256_ps(low_set)),
                _mm256_blendv_ps(a[1], sum[1], _mm256_castsi256_ps(high_set)),
            ]
        }
    }
    #[inline(always)]
    fn to_float(self, a: Ints) -> Floats {
        unsafe { [_mm256_cvtepi32_ps(a[0]), _mm256_cvtepi32_ps(a[1])] }
    }
    #[inline(always)]
    fn nibble_to_float(self, a: Ints) -> Floats {
        self.to_float(self.and_int(a, self.splat_int(15)))
    }
    #[inline(always)]
    fn upper_pair_to_float(self, a: Ints) -> Floats {
        let sixteens = self.shl_int(self.and_int(a, self.splat_int(3)), 4);
        self.to_float(self.sub_int(sixteens, self.splat_int(32)))
    }
    #[inline(always)]
    fn to_bits(self, a: Floats) -> Ints {
        unsafe { [_mm256_castps_si256(a[0]), _mm256_castps_si256(a[1])] }
    }
    #[inline(always)]
    fn from_bits(self, a: Ints) -> Floats {
        unsafe { [_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(a[1])] }
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> Floats {
        unsafe {
            [
                _mm256_cvtph_ps(_mm_loadu_si128(from.cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(from.add(8).cast())),
            ]
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u16) -> Floats {
        let widened = unsafe {
            [
                _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())),
                _mm256_cvtepu16_epi32(_mm_loadu_si128(from.add(8).cast())),
            ]
        };
        self.from_bits(self.shl_int(widened, 16))
    }
    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> Ints {
        unsafe {
            [
                _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast())),
                _mm256_cvtepi8_epi32(_mm_loadl_epi64(from.add(8).cast())),
            ]
        }
    }
    #[inline(always)]
    unsafe fn load_u8(self, from: *const u8) -> Ints {
        unsafe {
            [
                _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast())),
                _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.add(8).cast())),
            ]
        }
    }

    #[inline(always)]
    fn reduce_add(self, a: Floats) -> f32 {
        unsafe {
            let eight = _mm256_add_ps(a[0], a[1]);
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
    #[inline(always)]
    fn reduce_max(self, a: Floats) -> f32 {
        unsafe {
            let eight = _mm256_max_ps(a[0], a[1]);
            let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
}
