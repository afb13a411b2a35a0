// Brings queries, keys and values into shared memory.
#pragma once
#include "../arch/async_copy.cuh"
#include "../arch/vector.cuh"
#include "../params.h"
#include "shared_rows.cuh"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

template <class A, class B>
constexpr bool is_same = false;
template <class A>
constexpr bool is_same<A, A> = true;

// One item's view of the block table.
struct BlockTable {
    const LongwickPagedKv& cache;
    const std::uint32_t* blocks;
    std::uint32_t first_block;
    std::uint32_t head;
};

// The blocks of one tile's keys: two at most, since a tile is aligned and no longer than two blocks. They are looked up once, and
// not for each of the tile's chunks.
template <class Tile>
class TileBlocks {
  public:
    // Of the positions [start, start + KEYS) that lie in [first, end); one of them does.
    LONGWICK_DEVICE TileBlocks(const BlockTable& table, std::uint32_t start, std::uint32_t first, std::uint32_t end)
        : table_(table), number_((start > first ? start : first) >> table.cache.block_shift) {
        const std::uint32_t last = (start + Tile::KEYS < end ? start + Tile::KEYS : end) - 1;
        blocks_[0] = table.blocks[number_ - table.first_block];
        blocks_[1] = table.blocks[(last >> table.cache.block_shift) - table.first_block];
    }

    // Elements from the start of the keys (or values) to those of the token at `position`.
    LONGWICK_DEVICE std::int64_t offset(std::uint32_t position) const {
        return block(position) * table_.cache.block_stride + table_.head * table_.cache.head_stride +
               static_cast<std::int64_t>(place(position)) * Tile::DIM;
    }

    LONGWICK_DEVICE float scale(const float* scales, std::uint32_t position) const {
        return scales[block(position) * table_.cache.scale_block_stride + table_.head * table_.cache.scale_head_stride +
                      place(position)];
    }

  private:
    static_assert(Tile::KEYS <= 32, "a block has at least 16 tokens");

    LONGWICK_DEVICE std::int64_t block(std::uint32_t position) const {
        return position >> table_.cache.block_shift == number_ ? blocks_[0] : blocks_[1];
    }

    LONGWICK_DEVICE std::uint32_t place(std::uint32_t position) const { return position & (table_.cache.block_size - 1); }

    const BlockTable& table_;
    std::uint32_t number_;  // of the first block, from the sequence's start
    std::uint32_t blocks_[2];
};

// Stores eight floats as elements `8 * eighth` and on of a row.
template <class T, std::uint32_t ROW_BYTES>
LONGWICK_DEVICE void store_shared(SharedRows<T, ROW_BYTES> rows, std::uint32_t row, std::uint32_t eighth,
                                  const float (&values)[VECTOR]) {
    if constexpr (sizeof(T) == 2) {
        store_vector(rows.chunk(row, eighth), values);
    } else {
        LONGWICK_UNROLL
        for (std::uint32_t half = 0; half < 2; ++half) {
            Bytes16 bytes;
            LONGWICK_UNROLL
            for (std::uint32_t i = 0; i < 4; ++i) bytes.words[i] = float_bits(values[4 * half + i]);
            *reinterpret_cast<Bytes16*>(rows.chunk(row, 2 * eighth + half)) = bytes;
        }
    }
}

// Begins to load the tokens at positions `start` to `start + KEYS - 1`; those outside [first, end) become zero, so that whatever lies
// in the cache there takes no part. A cache of T is copied asynchronously; another is converted (fp8 with its scale) on the way, and
// has arrived at the next barrier.
template <class T, class Cached, class Tile>
LONGWICK_DEVICE void load_tokens(SharedRows<T, Tile::ROW_BYTES> rows, const void* cached, [[maybe_unused]] const float* scales,
                                 const BlockTable& table, std::uint32_t start, std::uint32_t first, std::uint32_t end) {
    const auto* elements = static_cast<const Cached*>(cached);
    const TileBlocks<Tile> blocks(table, start, first, end);
    if constexpr (is_same<T, Cached>) {
        constexpr std::uint32_t CHUNKS = Tile::ROW_BYTES / 16;
        for (std::uint32_t i = threadIdx.x; i < Tile::KEYS * CHUNKS; i += Tile::THREADS) {
            const std::uint32_t row = i / CHUNKS, chunk = i % CHUNKS, position = start + row;
            const bool is_seen = position >= first && position < end;
            const T* from = is_seen ? elements + blocks.offset(position) + chunk * (16 / sizeof(T)) : elements;
            async_copy_16(rows.chunk(row, chunk), from, is_seen ? 16 : 0);
        }
    } else {
        constexpr std::uint32_t EIGHTHS = Tile::DIM / VECTOR;
        for (std::uint32_t i = threadIdx.x; i < Tile::KEYS * EIGHTHS; i += Tile::THREADS) {
            const std::uint32_t row = i / EIGHTHS, eighth = i % EIGHTHS, position = start + row;
            float values[VECTOR] = {};
            if (position >= first && position < end) {
                load_vector(elements + blocks.offset(position) + eighth * VECTOR, values);
                if constexpr (sizeof(Cached) == 1) {
                    const float scale = blocks.scale(scales, position);
                    LONGWICK_UNROLL
                    for (std::uint32_t j = 0; j < VECTOR; ++j) values[j] *= scale;
                }
            }
            store_shared(rows, row, eighth, values);
        }
    }
}

// Which query a packed row is.
struct QueryRow {
    std::uint32_t token;
    std::uint32_t head;
};

LONGWICK_DEVICE QueryRow query_row(const LongwickAttentionParams& params, const LongwickAttentionItem& item,
                                   std::uint32_t row) {
    const std::uint32_t group = params.q_heads / params.cache.kv_heads;
    const std::uint32_t packed = item.first_row + row;
    return {params.plan[item.tokens + packed / group], blockIdx.y * group + packed % group};
}

// Elements from the start of the queries (and of the outputs) to the row's.
template <class Tile>
LONGWICK_DEVICE std::size_t query_offset(const LongwickAttentionParams& params, QueryRow query) {
    return (static_cast<std::size_t>(query.token) * params.q_heads + query.head) * Tile::DIM;
}

// Whether queries and outputs are f32 about products of a narrower type.
template <class T>
LONGWICK_DEVICE bool has_wide_queries(const LongwickAttentionParams& params) {
    return sizeof(T) != sizeof(float) && params.query_dtype == LONGWICK_F32;
}

// Rows past the item's are zero.
template <class T, class Tile>
LONGWICK_DEVICE void load_queries(SharedRows<T, Tile::ROW_BYTES> rows, const LongwickAttentionParams& params,
                                  const LongwickAttentionItem& item) {
    constexpr std::uint32_t EIGHTHS = Tile::DIM / VECTOR;
    for (std::uint32_t i = threadIdx.x; i < Tile::ROWS * EIGHTHS; i += Tile::THREADS) {
        const std::uint32_t row = i / EIGHTHS, eighth = i % EIGHTHS;
        float values[VECTOR] = {};
        if (row < item.num_rows) {
            const std::size_t start = query_offset<Tile>(params, query_row(params, item, row)) + eighth * VECTOR;
            if (has_wide_queries<T>(params)) {
                load_vector(static_cast<const float*>(params.q) + start, values);
            } else {
                load_vector(static_cast<const T*>(params.q) + start, values);
            }
        }
        store_shared(rows, row, eighth, values);
    }
}

}  // namespace longwick
#endif
