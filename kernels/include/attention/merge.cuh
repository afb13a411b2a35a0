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
    const std::uint32_t kv_head = head / group, place = head % group;
    const std::size_t index = static_cast<std::size_t>(item.token) * params.q_heads + head;
    for (std::uint32_t column = threadIdx.x; column < dim; column += blockDim.x) {
        RowStats stats;
        float sum = 0.0f;
        for (std::uint32_t first = 0; first < item.num_parts; first += MERGE_BATCH) {
            RowStats parts[MERGE_BATCH];
            float sums[MERGE_BATCH] = {};
            LONGWICK_UNROLL
            for (std::uint32_t i = 0; i < MERGE_BATCH; ++i) {
                // Past the last it is read again, so that no load waits for a branch.
                const bool is_there = first + i < item.num_parts;
                const std::uint32_t number = is_there ? first + i : item.num_parts - 1;
                const std::size_t part = (params.plan[item.first_part + number] + place) * std::size_t{kv_heads} + kv_head;
                const float maximum = params.partial_stats[2 * part], weights = params.partial_stats[2 * part + 1];
                const float weighted = params.partial_sums[part * dim + column];
                parts[i].maximum = is_there ? maximum : minus_infinity();
                parts[i].sum = is_there ? weights : 0.0f;
                sums[i] = is_there ? weighted : 0.0f;
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
