// Merges the partial results of a token's spans, in ascending order, in the arithmetic of `attend.cuh`.
#pragma once
#include "attend.cuh"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

// Partial results that are under way from memory at once.
constexpr std::uint32_t MERGE_BATCH = 8;

// One block a token along x and a query head along y; one thread some columns.
template <class T>
LONGWICK_DEVICE void merge_partials(const LongwickAttentionParams& params) {
    const auto* items = reinterpret_cast<const LongwickMergeItem*>(params.plan + params.first_item);
    const LongwickMergeItem item = items[blockIdx.x];
    const std::uint32_t kv_heads = params.cache.kv_heads, dim = params.cache.head_dim;
    const std::uint32_t group = params.q_heads / kv_heads, head = blockIdx.y;
    const std::size_t index = static_cast<std::size_t>(item.token) * params.q_heads + head;
    for (std::uint32_t column = threadIdx.x; column < dim; column += blockDim.x) {
        RowStats stats;
        float sum = 0.0f;
        for (std::uint32_t first = 0; first < item.num_parts; first += MERGE_BATCH) {
            RowStats parts[MERGE_BATCH];
            float sums[MERGE_BATCH] = {};
            LONGWICK_UNROLL
            for (std::uint32_t i = 0; i < MERGE_BATCH; ++i) {
                if (first + i >= item.num_parts) continue;
                const std::size_t row = params.plan[item.first_part + first + i] + head % group;
                const std::size_t part = row * kv_heads + head / group;
                parts[i].maximum = params.partial_stats[2 * part];
                parts[i].sum = params.partial_stats[2 * part + 1];
                sums[i] = params.partial_sums[part * dim + column];
            }
            // Those past the last are empty, which changes nothing.
            LONGWICK_UNROLL
            for (std::uint32_t i = 0; i < MERGE_BATCH; ++i) sum = merge_sum(sum, sums[i], merge(stats, parts[i]));
        }
        sum = merge_sum(sum, 0.0f, merge_sink(params, stats, head));
        static_cast<T*>(params.out)[index * dim + column] = from_float<T>(normalise(sum, stats.sum));
        if (params.log_sum_exp != nullptr && column == 0) params.log_sum_exp[index] = log_sum_exp(stats);
    }
}

}  // namespace longwick
#endif
