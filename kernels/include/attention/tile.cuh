// The one tile configuration of each element type and head size: results must not depend on a choice made at run time.
//
// A block of ROW_WARPS x COLUMN_WARPS warps attends ROWS packed query rows to KEYS keys at a time. A warp owns 16 rows and
// DIM / COLUMN_WARPS columns of the output; the warps of the same rows share the keys of a tile among them for the scores.
// Narrow tiles (few rows) and wide tiles differ in ROW_WARPS alone, so that a row's bits are the same in both.
#pragma once
#include <cstdint>

namespace longwick {

// Keys whose weighted values are summed before they are merged into the row's result, in ascending order.
constexpr std::uint32_t SPAN = 256;

constexpr std::uint32_t STATS_BYTES = sizeof(float);

// Bytes from one row of `row_bytes` to the next in shared memory, such that eight rows' chunks of 16 bytes meet different banks:
// rows of a multiple of 128 bytes are swizzled, others padded to an odd number of chunks.
constexpr std::uint32_t shared_row_stride(std::uint32_t row_bytes) {
    const std::uint32_t chunks = row_bytes / 16;
    return chunks % 8 == 0 || chunks % 2 == 1 ? row_bytes : row_bytes + 16;
}

constexpr std::uint32_t wide_row_warps(std::uint32_t element_bytes, std::uint32_t dim) {
    if (element_bytes == 4) return dim <= 64 ? 4 : dim <= 256 ? 2 : 1;
    return dim <= 256 ? 4 : 2;
}

template <std::uint32_t ELEMENT_BYTES, std::uint32_t HEAD_DIM, bool IS_NARROW>
struct AttentionTile {
    static constexpr std::uint32_t DIM = HEAD_DIM;
    static constexpr std::uint32_t COLUMN_WARPS = DIM <= 128 ? 1 : DIM / 128;
    static constexpr std::uint32_t ROW_WARPS = IS_NARROW ? 1 : wide_row_warps(ELEMENT_BYTES, DIM);
    static constexpr std::uint32_t ROWS = 16 * ROW_WARPS;
    static constexpr std::uint32_t THREADS = 32 * ROW_WARPS * COLUMN_WARPS;
    static constexpr std::uint32_t KEYS = ELEMENT_BYTES == 4 && DIM >= 256 ? 16 : 32;
    // Two stages: the next tile's keys and values load while this one is used. One stage: the next keys load while the values are
    // used, and the other way round.
    static constexpr std::uint32_t STAGES = DIM <= 128 ? 2 : 1;
    // Groups of eight keys whose scores a warp computes.
    static constexpr std::uint32_t SCORE_GROUPS = (KEYS / 8 + COLUMN_WARPS - 1) / COLUMN_WARPS;
    // Groups of eight output columns a warp.
    static constexpr std::uint32_t VALUE_GROUPS = DIM / COLUMN_WARPS / 8;
    // Tensor cores take the weights from registers where one warp has computed them all.
    static constexpr bool SHARES_WEIGHTS = COLUMN_WARPS > 1 || ELEMENT_BYTES == 4;

    static constexpr std::uint32_t ROW_BYTES = DIM * ELEMENT_BYTES;
    static constexpr std::uint32_t QUERY_BYTES = ROWS * shared_row_stride(ROW_BYTES);
    static constexpr std::uint32_t KEY_BYTES = KEYS * shared_row_stride(ROW_BYTES);
    static constexpr std::uint32_t WEIGHT_ROW_BYTES = KEYS * ELEMENT_BYTES;
    static constexpr std::uint32_t WEIGHT_BYTES = SHARES_WEIGHTS ? ROWS * shared_row_stride(WEIGHT_ROW_BYTES) : 0;
    static constexpr std::uint32_t STATS = COLUMN_WARPS > 1 ? ROWS * COLUMN_WARPS * STATS_BYTES : 0;
    static constexpr std::uint32_t SHARED_BYTES = QUERY_BYTES + 2 * STAGES * KEY_BYTES + WEIGHT_BYTES + STATS;

    static_assert(DIM % 16 == 0 && SPAN % KEYS == 0);
    static_assert(SHARED_BYTES <= 99 * 1024, "the smallest card gives a block 99 KiB");
};

}  // namespace longwick
