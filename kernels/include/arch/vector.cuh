// Eight elements at a time: 16-byte loads and stores for 16-bit types, two of them for f32, 8 bytes for fp8.
#pragma once
#include "dtype.cuh"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

// Elements that one thread moves at a time.
constexpr std::uint32_t VECTOR = 8;

struct alignas(16) Bytes16 {
    std::uint32_t words[4];
};
struct alignas(8) Bytes8 {
    std::uint32_t words[2];
};

LONGWICK_DEVICE void load_vector(const float* from, float (&to)[VECTOR]) {
    LONGWICK_UNROLL
    for (std::uint32_t half = 0; half < 2; ++half) {
        const Bytes16 bytes = reinterpret_cast<const Bytes16*>(from)[half];
        LONGWICK_UNROLL
        for (std::uint32_t i = 0; i < 4; ++i) to[4 * half + i] = bits_float(bytes.words[i]);
    }
}

template <class T>
LONGWICK_DEVICE void load_vector_16(const T* from, float (&to)[VECTOR]) {
    const Bytes16 bytes = *reinterpret_cast<const Bytes16*>(from);
    LONGWICK_UNROLL
    for (std::uint32_t i = 0; i < VECTOR; ++i) {
        to[i] = to_float(T{static_cast<std::uint16_t>(bytes.words[i / 2] >> (i % 2 * 16))});
    }
}

LONGWICK_DEVICE void load_vector(const bf16* from, float (&to)[VECTOR]) { load_vector_16(from, to); }
LONGWICK_DEVICE void load_vector(const f16* from, float (&to)[VECTOR]) { load_vector_16(from, to); }

LONGWICK_DEVICE void load_vector(const fp8* from, float (&to)[VECTOR]) {
    const Bytes8 bytes = *reinterpret_cast<const Bytes8*>(from);
    LONGWICK_UNROLL
    for (std::uint32_t i = 0; i < VECTOR; ++i) {
        to[i] = to_float(fp8{static_cast<std::uint8_t>(bytes.words[i / 4] >> (i % 4 * 8))});
    }
}

LONGWICK_DEVICE void store_vector(float* to, const float (&from)[VECTOR]) {
    LONGWICK_UNROLL
    for (std::uint32_t half = 0; half < 2; ++half) {
        Bytes16 bytes;
        LONGWICK_UNROLL
        for (std::uint32_t i = 0; i < 4; ++i) bytes.words[i] = float_bits(from[4 * half + i]);
        reinterpret_cast<Bytes16*>(to)[half] = bytes;
    }
}

template <class T>
LONGWICK_DEVICE void store_vector_16(T* to, const float (&from)[VECTOR]) {
    Bytes16 bytes;
    LONGWICK_UNROLL
    for (std::uint32_t i = 0; i < 4; ++i) bytes.words[i] = pack<T>(from[2 * i], from[2 * i + 1]);
    *reinterpret_cast<Bytes16*>(to) = bytes;
}

LONGWICK_DEVICE void store_vector(bf16* to, const float (&from)[VECTOR]) { store_vector_16(to, from); }
LONGWICK_DEVICE void store_vector(f16* to, const float (&from)[VECTOR]) { store_vector_16(to, from); }

LONGWICK_DEVICE void store_vector(fp8* to, const float (&from)[VECTOR]) {
    Bytes8 bytes = {{0, 0}};
    LONGWICK_UNROLL
    for (std::uint32_t i = 0; i < VECTOR; ++i) {
        bytes.words[i / 4] |= static_cast<std::uint32_t>(from_float<fp8>(from[i]).bits) << (i % 4 * 8);
    }
    *reinterpret_cast<Bytes8*>(to) = bytes;
}

}  // namespace longwick
#endif
