// Rows of elements in shared memory, laid out so that neighbouring rows do not meet in one bank.
#pragma once
#include "../platform.cuh"
#include "tile.cuh"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

template <class T, std::uint32_t ROW_BYTES>
struct SharedRows {
    static constexpr std::uint32_t STRIDE = shared_row_stride(ROW_BYTES);
    static constexpr std::uint32_t CHUNKS = ROW_BYTES / 16;
    static constexpr std::uint32_t CHUNK_ELEMENTS = 16 / sizeof(T);

    unsigned char* base;

    // The 16 bytes that hold elements `chunk * CHUNK_ELEMENTS` and on.
    LONGWICK_DEVICE T* chunk(std::uint32_t row, std::uint32_t chunk) const {
        const std::uint32_t place = CHUNKS % 8 == 0 ? chunk ^ (row & 7) : chunk;
        return reinterpret_cast<T*>(base + row * STRIDE + place * 16);
    }

    LONGWICK_DEVICE T* element(std::uint32_t row, std::uint32_t column) const {
        return chunk(row, column / CHUNK_ELEMENTS) + column % CHUNK_ELEMENTS;
    }
};

}  // namespace longwick
#endif
