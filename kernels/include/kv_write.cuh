// Writes new keys and values into their blocks.
#pragma once
#include "arch/lanes.cuh"
#include "arch/vector.cuh"
#include "params.h"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

// Heads (of keys, or of values) a block: one a warp.
constexpr std::uint32_t KV_WRITE_WARPS = 4;

// What one stored fp8 step is worth for a head whose greatest magnitude is `magnitude`: 1 where the quotient is 0, for a head of zeros
// or of numbers too small to divide, which then are stored as zeros.
LONGWICK_DEVICE float fp8_scale(float magnitude) {
    const float scale = magnitude / 448.0f;
    return scale > 0.0f ? scale : 1.0f;
}

// One warp writes one head of one token: to a cache of the same or another float type by rounding, to fp8 by a scale of its own.
template <class T, class Cached>
LONGWICK_DEVICE void kv_write(const LongwickKvWriteParams& params) {
    const LongwickPagedKv& cache = params.cache;
    const std::uint32_t lane = threadIdx.x % WARP;
    const std::uint64_t head_of_token = static_cast<std::uint64_t>(blockIdx.x) * KV_WRITE_WARPS + threadIdx.x / WARP;
    // A whole warp is present or not, so its collectives stay whole.
    if (head_of_token >= static_cast<std::uint64_t>(params.tokens) * cache.kv_heads) return;
    const bool is_key = blockIdx.y == 0;
    const T* from = static_cast<const T*>(is_key ? params.keys : params.values) + head_of_token * cache.head_dim;
    const std::uint64_t slot = params.slots[head_of_token / cache.kv_heads];
    const auto block = static_cast<std::int64_t>(slot >> cache.block_shift);
    const auto token = static_cast<std::int64_t>(slot & (cache.block_size - 1));
    const auto head = static_cast<std::int64_t>(head_of_token % cache.kv_heads);
    auto* to = static_cast<Cached*>(is_key ? cache.keys : cache.values) + block * cache.block_stride +
               head * cache.head_stride + token * cache.head_dim;

    float values[VECTOR];
    float scale = 1.0f;
    if constexpr (sizeof(Cached) == 1) {
        float magnitude = 0.0f;
        for (std::uint32_t i = lane * VECTOR; i < cache.head_dim; i += WARP * VECTOR) {
            load_vector(from + i, values);
            LONGWICK_UNROLL
            for (std::uint32_t j = 0; j < VECTOR; ++j) magnitude = fmaxf(magnitude, fabsf(values[j]));
        }
        scale = fp8_scale(warp_max(magnitude));
        float* scales = is_key ? cache.key_scales : cache.value_scales;
        if (lane == 0) scales[block * cache.scale_block_stride + head * cache.scale_head_stride + token] = scale;
    }
    for (std::uint32_t i = lane * VECTOR; i < cache.head_dim; i += WARP * VECTOR) {
        load_vector(from + i, values);
        if constexpr (sizeof(Cached) == 1) {
            LONGWICK_UNROLL
            for (std::uint32_t j = 0; j < VECTOR; ++j) values[j] = values[j] / scale;
        }
        store_vector(to + i, values);
    }
}

}  // namespace longwick
#endif
