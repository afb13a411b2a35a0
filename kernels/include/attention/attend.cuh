// Attention of one tile of packed query rows to a range of its sequence's paged keys and values.
//
// Arithmetic, the same for every tile, so that a row's bits depend on its query, its position and its visible keys and values alone:
// 1. keys are taken in spans of 256 at absolute positions, a span in tiles of KEYS;
// 2. within a span a running softmax over its tiles gives the greatest score, the sum of weights and the sums of weighted values;
// 3. spans are merged in ascending order; here, or from partial results by `merge_partials`, in the same arithmetic;
// 4. a sink is merged last, as a span of weight 1 and no values.
//
// Source: Dao 2023, FlashAttention-2; spans as in flash decoding (Dao, Haziza, Massa, Sizov 2023), of fixed size; sinks as in the
// gpt-oss model card.
#pragma once
#include "load.cuh"
#include "products.cuh"
#include "softmax.cuh"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

// Ends a row's work: the sink, the division, the log-sum-exp.
LONGWICK_DEVICE MergeFactors merge_sink(const LongwickAttentionParams& params, RowStats& stats, std::uint32_t head) {
    if (params.sinks == nullptr) return {1.0f, 0.0f};
    RowStats sink;
    sink.maximum = params.sinks[head] * LOG2_E;
    sink.sum = 1.0f;
    return merge(stats, sink);
}

template <class T, class Cached, class Tile>
class Attention {
  public:
    LONGWICK_DEVICE Attention(const LongwickAttentionParams& params, const LongwickAttentionItem& item)
        : params_(params), item_(item),
          table_{params.cache, params.plan + item.table, item.first_block, blockIdx.y} {
        unsigned char* memory = dynamic_shared();
        queries_.base = memory;
        keys_ = memory + Tile::QUERY_BYTES;
        values_ = keys_ + Tile::STAGES * Tile::KEY_BYTES;
        weights_.base = values_ + Tile::STAGES * Tile::KEY_BYTES;
        stats_ = reinterpret_cast<float*>(weights_.base + Tile::WEIGHT_BYTES);
        const std::uint32_t warp = threadIdx.x / WARP;
        column_warp_ = warp % Tile::COLUMN_WARPS;
        row_ = warp / Tile::COLUMN_WARPS * 16;
        LONGWICK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) find_visible(half);
    }

    LONGWICK_DEVICE void run() {
        load_queries<T, Tile>(queries_, params_, item_);
        if constexpr (Tile::STAGES == 2) {
            run_two_stages();
        } else {
            run_one_stage();
        }
        if (item_.partial == LONGWICK_NO_PARTIAL) {
            finish();
        } else {
            store_partial();
        }
    }

  private:
    // The lane's rows are row_ + lane / 4, and eight below.
    LONGWICK_DEVICE std::uint32_t row(std::uint32_t half) const { return row_ + threadIdx.x % WARP / 4 + 8 * half; }

    LONGWICK_DEVICE void find_visible(std::uint32_t half) {
        // A row that is not there sees nothing.
        first_visible_[half] = 0xffffffffu;
        last_visible_[half] = 0;
        if (row(half) >= item_.num_rows) return;
        const QueryRow query = query_row(params_, item_, row(half));
        const std::uint32_t position = params_.plan[params_.positions + query.token];
        const std::uint32_t window = params_.window;
        first_visible_[half] = window != LONGWICK_NO_WINDOW && position >= window ? position - window + 1 : 0;
        last_visible_[half] = position;
    }

    LONGWICK_DEVICE SharedRows<T, Tile::ROW_BYTES> stage(unsigned char* buffers, std::uint32_t which) const {
        return {buffers + which * Tile::KEY_BYTES};
    }

    LONGWICK_DEVICE void load_keys(std::uint32_t start, std::uint32_t which) {
        load_tokens<T, Cached, Tile>(stage(keys_, which), params_.cache.keys, params_.cache.key_scales, table_, start, item_.first_key, item_.end_key);
    }

    LONGWICK_DEVICE void load_values(std::uint32_t start, std::uint32_t which) {
        load_tokens<T, Cached, Tile>(stage(values_, which), params_.cache.values, params_.cache.value_scales, table_, start, item_.first_key, item_.end_key);
    }

    LONGWICK_DEVICE void run_two_stages() {
        const std::uint32_t first = item_.first_key / Tile::KEYS * Tile::KEYS;
        load_keys(first, 0);
        load_values(first, 0);
        async_commit();
        std::uint32_t which = 0;
        for (std::uint32_t start = first; start < item_.end_key; start += Tile::KEYS, which ^= 1) {
            const std::uint32_t next = start + Tile::KEYS;
            if (next < item_.end_key) {
                load_keys(next, which ^ 1);
                load_values(next, which ^ 1);
            }
            async_commit();
            async_wait<1>();
            __syncthreads();
            score(stage(keys_, which));
            soften(start);
            weigh(stage(values_, which));
            end_span(next);
            // The stage is free for the tile after the next.
            __syncthreads();
        }
    }

    LONGWICK_DEVICE void run_one_stage() {
        const std::uint32_t first = item_.first_key / Tile::KEYS * Tile::KEYS;
        load_keys(first, 0);
        async_commit();
        for (std::uint32_t start = first; start < item_.end_key; start += Tile::KEYS) {
            const std::uint32_t next = start + Tile::KEYS;
            // The keys are here, and all warps are done with the last tile's values and weights.
            async_wait<0>();
            __syncthreads();
            load_values(start, 0);
            async_commit();
            score(stage(keys_, 0));
            __syncthreads();
            if (next < item_.end_key) load_keys(next, 0);
            async_commit();
            soften(start);
            async_wait<1>();
            __syncthreads();
            weigh(stage(values_, 0));
            end_span(next);
        }
    }

    // Where the warp's key groups begin; past the tile's last group the warp has none.
    LONGWICK_DEVICE std::uint32_t first_group() const { return column_warp_ * Tile::SCORE_GROUPS; }
    LONGWICK_DEVICE bool has_groups() const { return first_group() < Tile::KEYS / 8; }

    LONGWICK_DEVICE void score(SharedRows<T, Tile::ROW_BYTES> keys) {
        LONGWICK_UNROLL
        for (std::uint32_t j = 0; j < Tile::SCORE_GROUPS; ++j) {
            LONGWICK_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i) scores_[j][i] = 0.0f;
        }
        if (has_groups()) Products<T, Tile>::scores(scores_, queries_, keys, row_, first_group());
    }

    LONGWICK_DEVICE std::uint32_t key_of(std::uint32_t start, std::uint32_t group, std::uint32_t i) const {
        return start + (first_group() + group) * 8 + threadIdx.x % 4 * 2 + i % 2;
    }

    LONGWICK_DEVICE bool is_visible(std::uint32_t key, std::uint32_t half) const {
        return has_groups() && key >= first_visible_[half] && key <= last_visible_[half];
    }

    // Products become scores; what a row may not see becomes minus infinity.
    LONGWICK_DEVICE void mask(std::uint32_t start) {
        LONGWICK_UNROLL
        for (std::uint32_t j = 0; j < Tile::SCORE_GROUPS; ++j) {
            LONGWICK_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i) {
                const std::uint32_t key = key_of(start, j, i);
                const bool visible = is_visible(key, i / 2);
                float score = scores_[j][i] * params_.scale;
                if (params_.soft_cap != 0.0f) score = params_.soft_cap * tanhf(score / params_.soft_cap);
                scores_[j][i] = visible ? score : minus_infinity();
            }
        }
    }

    // The greatest of a row's values, one in each of its four lanes, over all warps that share the row.
    LONGWICK_DEVICE void reduce_maxima(float (&maxima)[2]) {
        LONGWICK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            maxima[half] = fmaxf(maxima[half], shuffle_xor(maxima[half], 1));
            maxima[half] = fmaxf(maxima[half], shuffle_xor(maxima[half], 2));
        }
        if constexpr (Tile::COLUMN_WARPS > 1) {
            share(maxima);
            LONGWICK_UNROLL
            for (std::uint32_t half = 0; half < 2; ++half) {
                LONGWICK_UNROLL
                for (std::uint32_t warp = 0; warp < Tile::COLUMN_WARPS; ++warp)
                    maxima[half] = fmaxf(maxima[half], stats_[row(half) * Tile::COLUMN_WARPS + warp]);
            }
        }
    }

    // The sum of a row's values; lanes 1 apart, then 2, then warps ascending.
    LONGWICK_DEVICE void reduce_sums(float (&sums)[2]) {
        LONGWICK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            sums[half] += shuffle_xor(sums[half], 1);
            sums[half] += shuffle_xor(sums[half], 2);
        }
        if constexpr (Tile::COLUMN_WARPS > 1) {
            share(sums);
            LONGWICK_UNROLL
            for (std::uint32_t half = 0; half < 2; ++half) {
                sums[half] = 0.0f;
                LONGWICK_UNROLL
                for (std::uint32_t warp = 0; warp < Tile::COLUMN_WARPS; ++warp)
                    sums[half] += stats_[row(half) * Tile::COLUMN_WARPS + warp];
            }
        }
    }

    // Puts a value a row where the other warps of the row find it. Between two calls lies a barrier of the caller's.
    LONGWICK_DEVICE void share(const float (&values)[2]) {
        if (threadIdx.x % 4 == 0) {
            LONGWICK_UNROLL
            for (std::uint32_t half = 0; half < 2; ++half)
                stats_[row(half) * Tile::COLUMN_WARPS + column_warp_] = values[half];
        }
        __syncthreads();
    }

    // Turns the tile's products into weights, and brings what the span holds so far to the new maximum.
    LONGWICK_DEVICE void soften(std::uint32_t start) {
        mask(start);
        float maxima[2] = {minus_infinity(), minus_infinity()};
        LONGWICK_UNROLL
        for (std::uint32_t j = 0; j < Tile::SCORE_GROUPS; ++j) {
            LONGWICK_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i) maxima[i / 2] = fmaxf(maxima[i / 2], scores_[j][i]);
        }
        reduce_maxima(maxima);
        float factors[2], bases[2], sums[2] = {0.0f, 0.0f};
        LONGWICK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            RowStats& stats = span_stats_[half];
            const float maximum = fmaxf(stats.maximum, maxima[half] * LOG2_E);
            bases[half] = softmax_base(maximum);
            factors[half] = exp2f(stats.maximum - bases[half]);
            stats.maximum = maximum;
        }
        LONGWICK_UNROLL
        for (std::uint32_t j = 0; j < Tile::SCORE_GROUPS; ++j) {
            LONGWICK_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i) {
                // Fused, so that a large score loses nothing by its change of units.
                scores_[j][i] = exp2f(fmaf(scores_[j][i], LOG2_E, -bases[i / 2]));
                sums[i / 2] += scores_[j][i];
            }
        }
        LONGWICK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half)
            span_stats_[half].sum = fmaf(span_stats_[half].sum, factors[half], sums[half]);
        LONGWICK_UNROLL
        for (std::uint32_t j = 0; j < Tile::VALUE_GROUPS; ++j) {
            LONGWICK_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i) span_[j][i] *= factors[i / 2];
        }
        if constexpr (Tile::SHARES_WEIGHTS) store_weights();
    }

    // With one stage the barrier before `weigh` makes the weights seen by all; with two it follows here.
    LONGWICK_DEVICE void store_weights() {
        if (has_groups()) {
            LONGWICK_UNROLL
            for (std::uint32_t j = 0; j < Tile::SCORE_GROUPS; ++j) {
                LONGWICK_UNROLL
                for (std::uint32_t i = 0; i < 4; ++i)
                    *weights_.element(row(i / 2), key_of(0, j, i)) = from_float<T>(scores_[j][i]);
            }
        }
        if constexpr (Tile::STAGES == 2) __syncthreads();
    }

    LONGWICK_DEVICE void weigh(SharedRows<T, Tile::ROW_BYTES> values) {
        Products<T, Tile>::weigh(span_, scores_, weights_, values, row_, column_warp_ * Tile::VALUE_GROUPS * 8);
    }

    // Merges the span into the rows' results when its last tile is done.
    LONGWICK_DEVICE void end_span(std::uint32_t next) {
        if (next % SPAN != 0 && next < item_.end_key) return;
        float sums[2] = {span_stats_[0].sum, span_stats_[1].sum};
        reduce_sums(sums);
        MergeFactors factors[2];
        LONGWICK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            span_stats_[half].sum = sums[half];
            factors[half] = merge(total_stats_[half], span_stats_[half]);
            span_stats_[half] = RowStats{};
        }
        LONGWICK_UNROLL
        for (std::uint32_t j = 0; j < Tile::VALUE_GROUPS; ++j) {
            LONGWICK_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i) {
                total_[j][i] = merge_sum(total_[j][i], span_[j][i], factors[i / 2]);
                span_[j][i] = 0.0f;
            }
        }
    }

    LONGWICK_DEVICE std::uint32_t column(std::uint32_t group) const {
        return (column_warp_ * Tile::VALUE_GROUPS + group) * 8 + threadIdx.x % 4 * 2;
    }

    LONGWICK_DEVICE void store(std::size_t element, float value) {
        if (has_wide_queries<T>(params_)) {
            static_cast<float*>(params_.out)[element] = value;
        } else {
            static_cast<T*>(params_.out)[element] = from_float<T>(value);
        }
    }

    LONGWICK_DEVICE void finish() {
        LONGWICK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            if (row(half) >= item_.num_rows) continue;
            const QueryRow query = query_row(params_, item_, row(half));
            RowStats stats = total_stats_[half];
            const MergeFactors factors = merge_sink(params_, stats, query.head);
            const std::size_t start = query_offset<Tile>(params_, query);
            LONGWICK_UNROLL
            for (std::uint32_t j = 0; j < Tile::VALUE_GROUPS; ++j) {
                LONGWICK_UNROLL
                for (std::uint32_t i = 0; i < 2; ++i) {
                    const float sum = merge_sum(total_[j][2 * half + i], 0.0f, factors);
                    store(start + column(j) + i, normalise(sum, stats.sum));
                }
            }
            const bool is_first = column_warp_ == 0 && threadIdx.x % 4 == 0;
            if (params_.log_sum_exp != nullptr && is_first) params_.log_sum_exp[start / Tile::DIM] = log_sum_exp(stats);
        }
    }

    LONGWICK_DEVICE void store_partial() {
        LONGWICK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            if (row(half) >= item_.num_rows) continue;
            const std::size_t index = (static_cast<std::size_t>(item_.partial) + row(half)) * params_.cache.kv_heads + blockIdx.y;
            LONGWICK_UNROLL
            for (std::uint32_t j = 0; j < Tile::VALUE_GROUPS; ++j) {
                LONGWICK_UNROLL
                for (std::uint32_t i = 0; i < 2; ++i)
                    params_.partial_sums[index * Tile::DIM + column(j) + i] = total_[j][2 * half + i];
            }
            if (column_warp_ == 0 && threadIdx.x % 4 == 0) {
                params_.partial_stats[2 * index] = total_stats_[half].maximum;
                params_.partial_stats[2 * index + 1] = total_stats_[half].sum;
            }
        }
    }

    const LongwickAttentionParams& params_;
    const LongwickAttentionItem& item_;
    BlockTable table_;
    SharedRows<T, Tile::ROW_BYTES> queries_;
    unsigned char* keys_;
    unsigned char* values_;
    SharedRows<T, Tile::WEIGHT_ROW_BYTES> weights_;
    float* stats_;
    std::uint32_t column_warp_;
    std::uint32_t row_;
    std::uint32_t first_visible_[2];
    std::uint32_t last_visible_[2];
    // The tile's products, then scores, then weights.
    float scores_[Tile::SCORE_GROUPS][4];
    // The span's sums of weights are the lane's own until the span ends.
    RowStats span_stats_[2];
    RowStats total_stats_[2];
    float span_[Tile::VALUE_GROUPS][4] = {};
    float total_[Tile::VALUE_GROUPS][4] = {};
};

// One block an item along x and a kv head along y.
template <class T, class Cached, std::uint32_t DIM, bool IS_NARROW>
LONGWICK_DEVICE void paged_attention(const LongwickAttentionParams& params) {
    const auto* items = reinterpret_cast<const LongwickAttentionItem*>(params.plan + params.first_item);
    const LongwickAttentionItem item = items[blockIdx.x];
    Attention<T, Cached, AttentionTile<sizeof(T), DIM, IS_NARROW>>(params, item).run();
}

}  // namespace longwick
#endif
