// The attention kernels by element type, cache type, head size and width; one source file an element type defines them.
#pragma once
#include "../include/attention/attend.cuh"
#include "../include/attention/tile.cuh"
#include "../include/params.h"
#include "../include/platform.cuh"

namespace longwick {

struct AttentionEntry {
    Entry entry;
    std::uint32_t head_dim;
    std::uint32_t rows;  // a tile
    std::uint32_t threads;
    std::uint32_t shared_bytes;
};

template <std::uint32_t ELEMENT_BYTES, std::uint32_t DIM, bool IS_NARROW>
constexpr AttentionEntry attention_entry(Entry entry) {
    using Tile = AttentionTile<ELEMENT_BYTES, DIM, IS_NARROW>;
    return {entry, DIM, Tile::ROWS, Tile::THREADS, Tile::SHARED_BYTES};
}

// Null for a combination that was not built.
const AttentionEntry* find_attention_f32(std::uint32_t cache_dtype, std::uint32_t head_dim, bool is_narrow);
const AttentionEntry* find_attention_bf16(std::uint32_t cache_dtype, std::uint32_t head_dim, bool is_narrow);
const AttentionEntry* find_attention_f16(std::uint32_t cache_dtype, std::uint32_t head_dim, bool is_narrow);

template <std::size_t COUNT>
const AttentionEntry* find_attention(const AttentionEntry (&entries)[COUNT], std::uint32_t head_dim) {
    for (const AttentionEntry& entry : entries) {
        if (entry.head_dim == head_dim) return &entry;
    }
    return nullptr;
}

}  // namespace longwick

#define LONGWICK_HEAD_DIMS(X, ...) \
    X(16, __VA_ARGS__) X(32, __VA_ARGS__) X(64, __VA_ARGS__) X(80, __VA_ARGS__) X(96, __VA_ARGS__) X(128, __VA_ARGS__) \
    X(256, __VA_ARGS__) X(512, __VA_ARGS__)

// Two kernels: many rows (prefill, shared prefixes) and few (decode).
#define LONGWICK_ATTENTION_KERNELS(dim, types, T, Cached)                                                               \
    LONGWICK_KERNEL(paged_prefill_attention_##types##_d##dim, LongwickAttentionParams,                                  \
                    (AttentionTile<sizeof(T), dim, false>::THREADS), paged_attention<T, Cached, dim, false>)            \
    LONGWICK_KERNEL(paged_decode_attention_##types##_d##dim, LongwickAttentionParams,                                   \
                    (AttentionTile<sizeof(T), dim, true>::THREADS), paged_attention<T, Cached, dim, true>)
#define LONGWICK_PREFILL_ENTRY(dim, types, T) \
    attention_entry<T, dim, false>(LONGWICK_ENTRY(paged_prefill_attention_##types##_d##dim)),
#define LONGWICK_DECODE_ENTRY(dim, types, T) \
    attention_entry<T, dim, true>(LONGWICK_ENTRY(paged_decode_attention_##types##_d##dim)),

// Defines the kernels of one element and cache type, and `find_<types>`.
#define LONGWICK_ATTENTION(types, T, element_bytes, Cached)                                              \
    LONGWICK_HEAD_DIMS(LONGWICK_ATTENTION_KERNELS, types, T, Cached)                                     \
    const AttentionEntry* find_##types(std::uint32_t head_dim, bool is_narrow) {                         \
        static constexpr AttentionEntry PREFILL[] = {LONGWICK_HEAD_DIMS(LONGWICK_PREFILL_ENTRY, types, element_bytes)}; \
        static constexpr AttentionEntry DECODE[] = {LONGWICK_HEAD_DIMS(LONGWICK_DECODE_ENTRY, types, element_bytes)};   \
        return find_attention(is_narrow ? DECODE : PREFILL, head_dim);                                   \
    }
