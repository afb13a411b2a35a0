// A warp's two matrix products over a tile: scores = q k^T, and sums += weights v.
//
// Both leave a lane with rows l / 4 and l / 4 + 8 of its warp's sixteen, and columns 2 (l % 4) and the next of each group of eight:
// the fragment of the tensor cores, which the f32 variant adopts so that all else is shared.
#pragma once
#include "../arch/matrix.cuh"
#include "shared_rows.cuh"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

template <class T, class Tile>
struct Products {
    using Rows = SharedRows<T, Tile::ROW_BYTES>;
    using Weights = SharedRows<T, Tile::WEIGHT_ROW_BYTES>;

    // Scores of rows `row` and on with the keys of groups `group` and on; each product is summed over ascending dimensions.
    LONGWICK_DEVICE static void scores(float (&scores)[Tile::SCORE_GROUPS][4], Rows queries, Rows keys, std::uint32_t row,
                                       std::uint32_t group) {
        const std::uint32_t lane = threadIdx.x % WARP;
        LONGWICK_UNROLL
        for (std::uint32_t k = 0; k < Tile::DIM / 16; ++k) {
            std::uint32_t a[4];
            load_matrices<4, false>(a, queries.chunk(row + lane % 16, 2 * k + lane / 16));
            if constexpr (Tile::SCORE_GROUPS % 2 == 0) {
                LONGWICK_UNROLL
                for (std::uint32_t pair = 0; pair < Tile::SCORE_GROUPS / 2; ++pair) {
                    std::uint32_t both[4];
                    const std::uint32_t key = (group + 2 * pair + lane / 16) * 8 + lane % 8;
                    load_matrices<4, false>(both, keys.chunk(key, 2 * k + lane / 8 % 2));
                    multiply_add(scores[2 * pair], a, {both[0], both[1]}, T{});
                    multiply_add(scores[2 * pair + 1], a, {both[2], both[3]}, T{});
                }
            } else {
                static_assert(Tile::SCORE_GROUPS == 1);
                std::uint32_t b[2];
                load_matrices<2, false>(b, keys.chunk(group * 8 + lane % 8, 2 * k + lane / 8 % 2));
                multiply_add(scores[0], a, b, T{});
            }
        }
    }

    // sums += weights v over the columns from `column` on: keys ascending, sixteen at a time.
    LONGWICK_DEVICE static void weigh(float (&sums)[Tile::VALUE_GROUPS][4], const float (&weights)[Tile::SCORE_GROUPS][4],
                                      Weights shared_weights, Rows values, std::uint32_t row, std::uint32_t column) {
        const std::uint32_t lane = threadIdx.x % WARP;
        LONGWICK_UNROLL
        for (std::uint32_t k = 0; k < Tile::KEYS / 16; ++k) {
            std::uint32_t a[4];
            if constexpr (Tile::SHARES_WEIGHTS) {
                load_matrices<4, false>(a, shared_weights.chunk(row + lane % 16, 2 * k + lane / 16));
            } else {
                // The scores' fragment, rounded, is the next product's operand.
                LONGWICK_UNROLL
                for (std::uint32_t word = 0; word < 4; ++word) {
                    const float(&group)[4] = weights[2 * k + word / 2];
                    a[word] = pack<T>(group[word % 2 * 2], group[word % 2 * 2 + 1]);
                }
            }
            LONGWICK_UNROLL
            for (std::uint32_t pair = 0; pair < Tile::VALUE_GROUPS / 2; ++pair) {
                std::uint32_t both[4];
                const std::uint32_t chunk = column / 8 + 2 * pair + lane / 16;
                load_matrices<4, true>(both, values.chunk(k * 16 + lane % 16, chunk));
                multiply_add(sums[2 * pair], a, {both[0], both[1]}, T{});
                multiply_add(sums[2 * pair + 1], a, {both[2], both[3]}, T{});
            }
        }
    }
};

// f32 by fused multiply-adds.
template <class Tile>
struct Products<float, Tile> {
    using Rows = SharedRows<float, Tile::ROW_BYTES>;
    using Weights = SharedRows<float, Tile::WEIGHT_ROW_BYTES>;

    LONGWICK_DEVICE static void scores(float (&scores)[Tile::SCORE_GROUPS][4], Rows queries, Rows keys, std::uint32_t row,
                                       std::uint32_t group) {
        const std::uint32_t lane = threadIdx.x % WARP;
        for (std::uint32_t chunk = 0; chunk < Tile::DIM / 4; ++chunk) {
            const float* q[2] = {queries.chunk(row + lane / 4, chunk), queries.chunk(row + lane / 4 + 8, chunk)};
            LONGWICK_UNROLL
            for (std::uint32_t j = 0; j < Tile::SCORE_GROUPS; ++j) {
                LONGWICK_UNROLL
                for (std::uint32_t i = 0; i < 4; ++i) {
                    const float* key = keys.chunk((group + j) * 8 + lane % 4 * 2 + i % 2, chunk);
                    LONGWICK_UNROLL
                    for (std::uint32_t d = 0; d < 4; ++d) scores[j][i] = fmaf(q[i / 2][d], key[d], scores[j][i]);
                }
            }
        }
    }

    LONGWICK_DEVICE static void weigh(float (&sums)[Tile::VALUE_GROUPS][4], const float (&)[Tile::SCORE_GROUPS][4],
                                      Weights weights, Rows values, std::uint32_t row, std::uint32_t column) {
        const std::uint32_t lane = threadIdx.x % WARP;
        for (std::uint32_t key = 0; key < Tile::KEYS; ++key) {
            const float weight[2] = {*weights.element(row + lane / 4, key), *weights.element(row + lane / 4 + 8, key)};
            LONGWICK_UNROLL
            for (std::uint32_t j = 0; j < Tile::VALUE_GROUPS; ++j) {
                const float* value = values.element(key, column + j * 8 + lane % 4 * 2);
                LONGWICK_UNROLL
                for (std::uint32_t i = 0; i < 4; ++i) sums[j][i] = fmaf(weight[i / 2], value[i % 2], sums[j][i]);
            }
        }
    }
};

}  // namespace longwick
#endif
