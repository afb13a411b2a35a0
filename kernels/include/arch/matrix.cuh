// Tensor-core tiles: `ldmatrix` and `mma.sync` m16n8k16 with f32 sums.
//
// Fragments (PTX ISA, "Matrix Fragments for mma.m16n8k16"), for lane l, with g = l / 4 and t = l % 4:
//   A [16 x 16], four registers of two elements: rows g, g + 8, g, g + 8; columns 2t, 2t + 1 in the first two, 8 more in the others
//   B [16 x 8], two registers of two elements: column g; rows 2t, 2t + 1, then 8 more
//   C [16 x 8], four floats: row g, columns 2t, 2t + 1; row g + 8, the same columns
#pragma once
#include "dtype.cuh"
#include "lanes.cuh"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

#if defined(__CUDACC__)

// Loads `COUNT` (2 or 4) 8 x 8 matrices of 16-bit elements. Lanes 8i to 8i + 7 give the addresses of matrix i's rows (16 bytes each);
// lane l gets row l / 4, elements 2 (l % 4) and the next, of each matrix, or of its transpose.
template <std::uint32_t COUNT, bool TRANSPOSED>
LONGWICK_DEVICE void load_matrices(std::uint32_t (&to)[COUNT], const void* row) {
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
    if constexpr (COUNT == 4 && !TRANSPOSED) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
    } else if constexpr (COUNT == 4) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address) : "memory");
    } else {
        static_assert(COUNT == 2 && !TRANSPOSED);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                     : "=r"(to[0]), "=r"(to[1]) : "r"(address) : "memory");
    }
}

// sums += a b
LONGWICK_DEVICE void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], bf16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

LONGWICK_DEVICE void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], f16) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#else

struct LoadMatricesOperand {
    std::uint32_t* to;
    const void* row;
};

template <std::uint32_t COUNT, bool TRANSPOSED>
void load_matrices_collective(void* const operands[WARP], std::uint32_t mask) {
    if (mask != ALL_LANES) emu::fault("ldmatrix needs the whole warp");
    for (std::uint32_t lane = 0; lane < WARP; ++lane) {
        for (std::uint32_t matrix = 0; matrix < COUNT; ++matrix) {
            std::uint32_t bits[2];
            for (std::uint32_t element = 0; element < 2; ++element) {
                const std::uint32_t along = lane % 4 * 2 + element;
                const std::uint32_t row = TRANSPOSED ? along : lane / 4, column = TRANSPOSED ? lane / 4 : along;
                const auto* source = static_cast<const LoadMatricesOperand*>(operands[matrix * 8 + row]);
                bits[element] = static_cast<const std::uint16_t*>(source->row)[column];
            }
            static_cast<LoadMatricesOperand*>(operands[lane])->to[matrix] = bits[0] | bits[1] << 16;
        }
    }
}

template <std::uint32_t COUNT, bool TRANSPOSED>
LONGWICK_DEVICE void load_matrices(std::uint32_t (&to)[COUNT], const void* row, const char* file = __builtin_FILE(),
                                   int line = __builtin_LINE()) {
    // With fewer than four matrices the last lanes' addresses are not used.
    if (threadIdx.x % WARP < COUNT * 8) emu::check_shared(row, 16, 16, {file, line});
    LoadMatricesOperand operand = {to, row};
    emu::warp_collective(ALL_LANES, &operand, load_matrices_collective<COUNT, TRANSPOSED>, {file, line});
}

struct MultiplyAddOperand {
    float* sums;
    const std::uint32_t* a;
    const std::uint32_t* b;
};

template <class T>
void multiply_add_collective(void* const operands[WARP], std::uint32_t mask) {
    if (mask != ALL_LANES) emu::fault("mma needs the whole warp");
    const auto element = [](std::uint32_t word, std::uint32_t which) {
        return to_float(T{static_cast<std::uint16_t>(word >> (16 * which))});
    };
    float a[16][16], b[16][8];
    for (std::uint32_t lane = 0; lane < WARP; ++lane) {
        const auto* operand = static_cast<const MultiplyAddOperand*>(operands[lane]);
        const std::uint32_t g = lane / 4, t = lane % 4;
        for (std::uint32_t which = 0; which < 2; ++which) {
            for (std::uint32_t word = 0; word < 4; ++word)
                a[g + word % 2 * 8][2 * t + which + word / 2 * 8] = element(operand->a[word], which);
            for (std::uint32_t word = 0; word < 2; ++word) b[2 * t + which + word * 8][g] = element(operand->b[word], which);
        }
    }
    float products[16][8] = {};
    for (std::uint32_t k = 0; k < 16; ++k) {
        for (std::uint32_t row = 0; row < 16; ++row) {
            for (std::uint32_t column = 0; column < 8; ++column)
                products[row][column] = fmaf(a[row][k], b[k][column], products[row][column]);
        }
    }
    for (std::uint32_t lane = 0; lane < WARP; ++lane) {
        auto* operand = static_cast<MultiplyAddOperand*>(operands[lane]);
        const std::uint32_t g = lane / 4, t = lane % 4;
        for (std::uint32_t i = 0; i < 4; ++i) operand->sums[i] += products[g + i / 2 * 8][2 * t + i % 2];
    }
}

template <class T>
LONGWICK_DEVICE void multiply_add(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], T,
                                  const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    MultiplyAddOperand operand = {sums, a, b};
    emu::warp_collective(ALL_LANES, &operand, multiply_add_collective<T>, {file, line});
}

#endif

}  // namespace longwick
#endif
