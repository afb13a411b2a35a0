//! Lanes in one 512-bit register.
use super::{Kernel, Lanes};
use std::arch::x86_64::*;

/// Proof that AVX-512 F, BW, DQ, VL and VNNI, AVX2, FMA and F16C are there: only [`run`] makes one.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

/// Runs `kernel` with these instructions.
///
/// # Safety
/// The processor must have them.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
pub(super) unsafe fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
}

// SAFETY of every block below: the token proves that the instructions are there; pointers are as the trait's caller promises.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Lanes for Avx512 {
    type F = __m512;
    type I = __m512i;
    const REGISTERS: usize = 32;

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn load(self, from: *const f32) -> __m512 {
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32, value: __m512) {
        unsafe { _mm512_storeu_ps(to, value) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn neg_fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        unsafe { _mm512_fnmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        unsafe { _mm512_min_ps(a, b) }
    }

    #[inline(always)]
    fn splat_int(self, value: i32) -> __m512i {
        unsafe { _mm512_set1_epi32(value) }
    }
    #[inline(always)]
    unsafe fn load_int(self, from: *const i32) -> __m512i {
        unsafe { _mm512_loadu_epi32(from) }
    }
    #[inline(always)]
    unsafe fn store_int(self, to: *mut i32, value: __m512i) {
        unsafe { _mm512_storeu_epi32(to, value) }
    }
    #[inline(always)]
    unsafe fn store_low_halves(self, to: *mut i16, value: __m512i) {
        unsafe { _mm256_storeu_si256(to.cast(), _mm512_cvtepi32_epi16(value)) }
    }
    #[inline(always)]
    fn add_int(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn sub_int(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn and_int(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    fn or_int(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn shl_int(self, a: __m512i, bits: u32) -> __m512i {
        unsafe { _mm512_sllv_epi32(a, _mm512_set1_epi32(bits as i32)) }
    }
    #[inline(always)]
    fn sar_int(self, a: __m512i, bits: u32) -> __m512i {
        unsafe { _mm512_srav_epi32(a, _mm512_set1_epi32(bits as i32)) }
    }
    #[inline(always)]
    fn max_int(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_max_epi32(a, b) }
    }
    #[inline(always)]
    fn add_pairs(self, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_add_epi16(a, b) }
    }
    #[inline(always)]
    fn add_pairs_where(self, a: __m512i, mask: u32, b: __m512i) -> __m512i {
        unsafe { _mm512_mask_add_epi16(a, mask, a, b) }
    }
    #[inline(always)]
    fn dot_pairs(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
        unsafe { _mm512_dpwssd_epi32(sum, a, b) }
    }
    #[inline(always)]
    fn to_float(self, a: __m512i) -> __m512 {
        unsafe { _mm512_cvtepi32_ps(a) }
    }
    #[inline(always)]
    fn to_bits(self, a: __m512) -> __m512i {
        unsafe { _mm512_castps_si512(a) }
    }
    #[inline(always)]
    fn from_bits(self, a: __m512i) -> __m512 {
        unsafe { _mm512_castsi512_ps(a) }
    }

    #[inline(always)]
    unsafe fn load_f16(self, from: *const u16) -> __m512 {
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, from: *const u16) -> __m512 {
        let widened = unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())) };
        self.from_bits(self.shl_int(widened, 16))
    }
    #[inline(always)]
    unsafe fn load_i8(self, from: *const i8) -> __m512i {
        unsafe { _mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, from: *const u8) -> __m512i {
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn load_i8_pairs(self, from: *const i8) -> __m512i {
        unsafe { _mm512_cvtepi8_epi16(_mm256_loadu_si256(from.cast())) }
    }
    #[inline(always)]
    unsafe fn look_up_nibbles(self, from: *const u8, table: &[i8; 16]) -> __m512i {
        unsafe {
            let (bytes, table) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(table.as_ptr().cast()));
            let nibble = _mm_set1_epi8(15);
            let low = _mm_shuffle_epi8(table, _mm_and_si128(bytes, nibble));
            let high = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16::<4>(bytes), nibble));
            let pairs = _mm256_set_m128i(_mm_unpackhi_epi8(low, high), _mm_unpacklo_epi8(low, high));
            _mm512_cvtepi8_epi16(pairs)
        }
    }

    #[inline(always)]
    fn reduce_add(self, a: __m512) -> f32 {
        unsafe {
            let eight = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
    #[inline(always)]
    fn reduce_max(self, a: __m512) -> f32 {
        unsafe {
            let eight = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps::<1>(eight));
            let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
    #[inline(always)]
    fn reduce_max_int(self, a: __m512i) -> i32 {
        unsafe { _mm512_reduce_max_epi32(a) }
    }
}
