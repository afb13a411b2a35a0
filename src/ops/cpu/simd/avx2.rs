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
    unsafe fn load_int(self, from: *const i32) -> Ints {
        unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(8).cast())] }
    }
    #[inline(always)]
    unsafe fn store_int(self, to: *mut i32, value: Ints) {
        unsafe {
            _mm256_storeu_si256(to.cast(), value[0]);
            _mm256_storeu_si256(to.add(8).cast(), value[1]);
        }
    }
    #[inline(always)]
    unsafe fn store_low_halves(self, to: *mut i16, value: Ints) {
        unsafe {
            // Packing saturates, so the sign is first spread over the upper half.
            let signed = self.sar_int(self.shl_int(value, 16), 16);
            let packed = _mm256_packs_epi32(signed[0], signed[1]);
            // The halves of both registers were packed in turn.
            _mm256_storeu_si256(to.cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(packed));
        }
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
    fn sar_int(self, a: Ints, bits: u32) -> Ints {
        unsafe {
            let bits = _mm256_set1_epi32(bits as i32);
            [_mm256_srav_epi32(a[0], bits), _mm256_srav_epi32(a[1], bits)]
        }
    }
    #[inline(always)]
    fn max_int(self, a: Ints, b: Ints) -> Ints {
        unsafe { [_mm256_max_epi32(a[0], b[0]), _mm256_max_epi32(a[1], b[1])] }
    }
    #[inline(always)]
    fn add_pairs(self, a: Ints, b: Ints) -> Ints {
        unsafe { [_mm256_add_epi16(a[0], b[0]), _mm256_add_epi16(a[1], b[1])] }
    }
    #[inline(always)]
    fn add_pairs_where(self, a: Ints, mask: u32, b: Ints) -> Ints {
        unsafe {
            let bits = _mm256_setr_epi16(
                1,
                2,
                4,
                8,
                16,
                32,
                64,
                128,
                256,
                512,
                1024,
                2048,
                4096,
                8192,
                16384,
                i16::MIN,
            );
            let low = _mm256_and_si256(_mm256_set1_epi16(mask as i16), bits);
            let high = _mm256_and_si256(_mm256_set1_epi16((mask >> 16) as i16), bits);
            let added = [
                _mm256_and_si256(_mm256_cmpeq_epi16(low, bits), b[0]),
                _mm256_and_si256(_mm256_cmpeq_epi16(high, bits), b[1]),
            ];
            self.add_pairs(a, added)
        }
    }
    #[inline(always)]
    fn dot_pairs(self, sum: Ints, a: Ints, b: Ints) -> Ints {
        unsafe { self.add_int(sum, [_mm256_madd_epi16(a[0], b[0]), _mm256_madd_epi16(a[1], b[1])]) }
    }
    #[inline(always)]
    fn to_float(self, a: Ints) -> Floats {
        unsafe { [_mm256_cvtepi32_ps(a[0]), _mm256_cvtepi32_ps(a[1])] }
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
    unsafe fn load_i8_pairs(self, from: *const i8) -> Ints {
        unsafe {
            [
                _mm256_cvtepi8_epi16(_mm_loadu_si128(from.cast())),
                _mm256_cvtepi8_epi16(_mm_loadu_si128(from.add(16).cast())),
            ]
        }
    }
    #[inline(always)]
    unsafe fn look_up_nibbles(self, from: *const u8, table: &[i8; 16]) -> Ints {
        unsafe {
            let (bytes, table) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(table.as_ptr().cast()));
            let nibble = _mm_set1_epi8(15);
            let low = _mm_shuffle_epi8(table, _mm_and_si128(bytes, nibble));
            let high = _mm_shuffle_epi8(table, _mm_and_si128(_mm_srli_epi16::<4>(bytes), nibble));
            [
                _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(low, high)),
                _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(low, high)),
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
    #[inline(always)]
    fn reduce_max_int(self, a: Ints) -> i32 {
        unsafe {
            let eight = _mm256_max_epi32(a[0], a[1]);
            let four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256::<1>(eight));
            let two = _mm_max_epi32(four, _mm_shuffle_epi32::<0b00_00_11_10>(four));
            _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32::<0b00_00_00_01>(two)))
        }
    }
}
