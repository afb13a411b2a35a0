#include "paged_attention.h"

#include "../include/attention/merge.cuh"

namespace longwick {
namespace {

constexpr std::uint32_t MERGE_THREADS = 128;

LONGWICK_KERNEL(merge_attention_f32, LongwickAttentionParams, MERGE_THREADS, merge_partials<float>)
LONGWICK_KERNEL(merge_attention_bf16, LongwickAttentionParams, MERGE_THREADS, merge_partials<bf16>)
LONGWICK_KERNEL(merge_attention_f16, LongwickAttentionParams, MERGE_THREADS, merge_partials<f16>)

constexpr Entry MERGE_ENTRIES[] = {LONGWICK_ENTRY(merge_attention_f32), LONGWICK_ENTRY(merge_attention_bf16),
                                   LONGWICK_ENTRY(merge_attention_f16)};

const AttentionEntry* find(std::uint32_t dtype, std::uint32_t cache_dtype, std::uint32_t head_dim, bool is_narrow) {
    if (dtype == LONGWICK_F32) return find_attention_f32(cache_dtype, head_dim, is_narrow);
    if (dtype == LONGWICK_BF16) return find_attention_bf16(cache_dtype, head_dim, is_narrow);
    return find_attention_f16(cache_dtype, head_dim, is_narrow);
}

// A grid has at most this many blocks along y, where the heads lie.
constexpr std::uint32_t MAX_HEADS = 65535;

LongwickStatus check(const LongwickAttentionParams& params) {
    const LongwickPagedKv& cache = params.cache;
    if (params.dtype > LONGWICK_F16) return LONGWICK_UNSUPPORTED_DTYPE;
    if (params.query_dtype != params.dtype && params.query_dtype != LONGWICK_F32) return LONGWICK_UNSUPPORTED_DTYPE;
    const bool heads_fit = cache.kv_heads != 0 && params.q_heads != 0 && params.q_heads % cache.kv_heads == 0;
    if (!heads_fit || params.q_heads > MAX_HEADS || cache.block_size == 0 || params.window == 0) return LONGWICK_BAD_ARGUMENT;
    const bool has_scales = cache.key_scales != nullptr && cache.value_scales != nullptr;
    return cache.dtype == LONGWICK_FP8_E4M3 && !has_scales ? LONGWICK_BAD_ARGUMENT : LONGWICK_OK;
}

std::int32_t attend(const LongwickAttentionParams& params, const LongwickStream* stream, bool is_narrow) {
    if (const LongwickStatus status = check(params); status != LONGWICK_OK) return status;
    const AttentionEntry* found = find(params.dtype, params.cache.dtype, params.cache.head_dim, is_narrow);
    // Head sizes are the same for all types: a size known to the type's own cache means that the cache's type is the unknown one.
    if (found == nullptr) {
        const bool size_is_known = find(params.dtype, params.dtype, params.cache.head_dim, is_narrow) != nullptr;
        return size_is_known ? LONGWICK_UNSUPPORTED_DTYPE : LONGWICK_UNSUPPORTED_HEAD_DIM;
    }
    if (params.num_items == 0) return LONGWICK_OK;
    return launch(stream, found->entry, params.num_items, params.cache.kv_heads, found->threads, found->shared_bytes, params);
}

}  // namespace
}  // namespace longwick

extern "C" {

// Packed rows a tile of the prefill (or of the narrow decode) kernel takes; 0 for a combination that was not built.
std::uint32_t longwick_attention_rows(std::uint32_t dtype, std::uint32_t cache_dtype, std::uint32_t head_dim, bool is_narrow) {
    if (dtype > LONGWICK_F16) return 0;
    const longwick::AttentionEntry* found = longwick::find(dtype, cache_dtype, head_dim, is_narrow);
    return found == nullptr ? 0 : found->rows;
}

// Items of many rows.
std::int32_t longwick_paged_prefill_attention(const LongwickAttentionParams* params, const LongwickStream* stream) {
    return longwick::attend(*params, stream, false);
}

// Items of few rows.
std::int32_t longwick_paged_decode_attention(const LongwickAttentionParams* params, const LongwickStream* stream) {
    return longwick::attend(*params, stream, true);
}

// `first_item` and `num_items` are `LongwickMergeItem`s.
std::int32_t longwick_merge_attention(const LongwickAttentionParams* params, const LongwickStream* stream) {
    using namespace longwick;
    if (const LongwickStatus status = check(*params); status != LONGWICK_OK) return status;
    if (params->num_items == 0) return LONGWICK_OK;
    return launch(stream, MERGE_ENTRIES[params->query_dtype], params->num_items, params->q_heads, MERGE_THREADS, 0, *params);
}

}  // extern "C"
