// Element types and their conversions to and from f32: round to nearest, ties to even.
#pragma once
#include "../platform.cuh"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

struct bf16 {
    std::uint16_t bits;
};
struct f16 {
    std::uint16_t bits;
};
// OCP E4M3: 4 exponent bits of bias 7, 3 mantissa bits, no infinity, NaN 0x7f and 0xff, greatest 448.
struct fp8 {
    std::uint8_t bits;
};

LONGWICK_DEVICE std::uint32_t float_bits(float x) {
#if defined(__CUDACC__)
    return __float_as_uint(x);
#else
    return __builtin_bit_cast(std::uint32_t, x);
#endif
}

LONGWICK_DEVICE float bits_float(std::uint32_t bits) {
#if defined(__CUDACC__)
    return __uint_as_float(bits);
#else
    return __builtin_bit_cast(float, bits);
#endif
}

LONGWICK_DEVICE float to_float(float x) { return x; }

LONGWICK_DEVICE float to_float(bf16 x) { return bits_float(static_cast<std::uint32_t>(x.bits) << 16); }

LONGWICK_DEVICE float to_float(f16 x) {
#if defined(__CUDACC__)
    float result;
    asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
    return result;
#else
    return static_cast<float>(__builtin_bit_cast(_Float16, x.bits));
#endif
}

LONGWICK_DEVICE float to_float(fp8 x) {
    // Moving exponent and mantissa into an f32's place leaves the bias 120 too low, for subnormals too.
    const float magnitude = bits_float(static_cast<std::uint32_t>(x.bits & 0x7f) << 20) * 0x1p120f;
    const float number = (x.bits & 0x7f) == 0x7f ? bits_float(0x7fffffffu) : magnitude;
    return (x.bits & 0x80) != 0 ? -number : number;
}

// `from_float<T>(x)` by overload: the second argument is never read.
LONGWICK_DEVICE float round_to(float x, float) { return x; }

LONGWICK_DEVICE bf16 round_to(float x, bf16) {
#if defined(__CUDACC__)
    bf16 result;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
#else
    if (x != x) return {0x7fff};
    const std::uint32_t bits = float_bits(x);
    return {static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
#endif
}

LONGWICK_DEVICE f16 round_to(float x, f16) {
#if defined(__CUDACC__)
    f16 result;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
    return result;
#else
    return {__builtin_bit_cast(std::uint16_t, static_cast<_Float16>(x))};
#endif
}

// Saturates at 448. Written out, because sm_80 and sm_86 have no such instruction.
LONGWICK_DEVICE fp8 round_to(float x, fp8) {
    if (x != x) return {0x7f};
    const std::uint32_t sign = float_bits(x) >> 24 & 0x80;
    const float magnitude = fabsf(x);
    if (magnitude < 0x1p-6f) {
        // Subnormals are multiples of 2^-9; eight of them make the least normal number, whose code is 8.
        return {static_cast<std::uint8_t>(sign | static_cast<std::uint32_t>(rintf(magnitude * 0x1p9f)))};
    }
    if (magnitude >= 448.0f) return {static_cast<std::uint8_t>(sign | 0x7e)};
    std::uint32_t bits = float_bits(magnitude);
    bits += 0x7ffff + (bits >> 20 & 1);
    return {static_cast<std::uint8_t>(sign | ((bits >> 20) - (120u << 3)))};
}

template <class T>
LONGWICK_DEVICE T from_float(float x) {
    return round_to(x, T{});
}

// The 32-bit operand half of a tensor-core fragment: `low` in the lower bits.
template <class T>
LONGWICK_DEVICE std::uint32_t pack(float low, float high) {
    return from_float<T>(low).bits | static_cast<std::uint32_t>(from_float<T>(high).bits) << 16;
}

}  // namespace longwick
#endif
