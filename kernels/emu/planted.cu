// Kernels with one fault each, and their sound twins: the emulator's own tests run them. No part of the product.
#include "../include/arch/async_copy.cuh"
#include "../include/arch/lanes.cuh"
#include "../include/arch/matrix.cuh"

namespace longwick {
namespace {

constexpr std::uint32_t THREADS = 64;

// Mirrored by `tests/emulator.rs`.
struct PlantedParams {
    const float* in;  // [THREADS]; for the matrix kernels 16-bit [16, 16] and [8, 16] (the second operand's columns)
    float* out;       // [THREADS]; for the matrix kernels [16, 8]
};

float* shared_floats() { return reinterpret_cast<float*>(dynamic_shared()); }

void neighbour(const PlantedParams& params, bool with_barrier) {
    const std::uint32_t thread = threadIdx.x;
    shared_floats()[thread] = params.in[thread];
    if (with_barrier) __syncthreads();
    params.out[thread] = shared_floats()[(thread + 1) % THREADS];
}
void barrier(const PlantedParams& params) { neighbour(params, true); }
void missing_barrier(const PlantedParams& params) { neighbour(params, false); }

// Each thread hands its value on three times through one buffer; without the second barrier a fast thread overwrites what a slow
// one has not read.
void hand_on(const PlantedParams& params, bool with_barrier) {
    float value = params.in[threadIdx.x];
    for (int step = 0; step < 3; ++step) {
        shared_floats()[threadIdx.x] = value;
        __syncthreads();
        value = shared_floats()[(threadIdx.x + 1) % THREADS];
        if (with_barrier) __syncthreads();
    }
    params.out[threadIdx.x] = value;
}
void reuse(const PlantedParams& params) { hand_on(params, true); }
void early_reuse(const PlantedParams& params) { hand_on(params, false); }

void shared_overrun(const PlantedParams& params) {
    volatile float* end = shared_floats() + THREADS;
    end[threadIdx.x] = params.in[threadIdx.x];
}
void global_overrun(const PlantedParams& params) {
    volatile const float* in = params.in;
    params.out[threadIdx.x] = in[threadIdx.x + 4];
}

void copy(const PlantedParams& params, bool wait_in_time) {
    const std::uint32_t thread = threadIdx.x;
    if (thread < THREADS / 4) async_copy_16(shared_floats() + 4 * thread, params.in + 4 * thread, 16);
    async_commit();
    if (wait_in_time) async_wait<0>();
    __syncthreads();
    params.out[thread] = shared_floats()[thread];
    async_wait<0>();
}
void async_copied(const PlantedParams& params) { copy(params, true); }
void missing_wait(const PlantedParams& params) { copy(params, false); }
void never_waits(const PlantedParams& params) {
    async_copy_16(shared_floats() + threadIdx.x / 4 * 4, params.in, 16);
    async_commit();
}
void unaligned_copy(const PlantedParams& params) {
    async_copy_16(shared_floats(), params.in + 1, 16);
    async_commit();
    async_wait<0>();
}
// The second of two groups may still be under way.
void wait_for_too_few(const PlantedParams& params) {
    for (std::uint32_t group = 0; group < 2; ++group) {
        if (threadIdx.x < THREADS / 8) {
            const std::uint32_t at = group * THREADS / 2 + 4 * threadIdx.x;
            async_copy_16(shared_floats() + at, params.in + at, 16);
        }
        async_commit();
    }
    async_wait<1>();
    __syncthreads();
    params.out[threadIdx.x] = shared_floats()[threadIdx.x];
    __syncthreads();
    async_wait<0>();
}

void divergent_barrier(const PlantedParams&) {
    if (threadIdx.x < 7) {
        __syncthreads();
    } else {
        __syncthreads();
    }
}
void exited_thread(const PlantedParams&) {
    if (threadIdx.x == 5) return;
    __syncthreads();
}
void barrier_against_shuffle(const PlantedParams& params) {
    if (threadIdx.x < WARP) {
        params.out[threadIdx.x] = shuffle_xor(1.0f, 1);
    } else if (threadIdx.x == WARP) {
        params.out[0] = shuffle_xor(1.0f, 1);
    }
    __syncthreads();
}
void divergent_shuffle(const PlantedParams& params) {
    if (threadIdx.x % 2 == 0) {
        params.out[threadIdx.x] = shuffle_xor(1.0f, 2);
    } else {
        params.out[threadIdx.x] = shuffle_xor(1.0f, 2);
    }
}
void masked_shuffle(const PlantedParams& params) {
    const std::uint32_t thread = threadIdx.x;
    const std::uint32_t half = thread % WARP < 16 ? 0x0000ffffu : 0xffff0000u;
    params.out[thread] = shuffle_xor(params.in[thread], 3, half) + (any_lane(params.in[thread] == 40.0f) ? 0.5f : 0.0f);
}
void foreign_lane(const PlantedParams& params) {
    const std::uint32_t half = threadIdx.x % WARP < 16 ? 0x0000ffffu : 0xffff0000u;
    params.out[threadIdx.x] = shuffle_xor(params.in[threadIdx.x], 16, half);
}

template <class T, bool TRANSPOSED>
void product(const PlantedParams& params) {
    auto* shared = reinterpret_cast<T*>(dynamic_shared());
    const auto* in = reinterpret_cast<const T*>(params.in);
    for (std::uint32_t i = threadIdx.x; i < 16 * 16; i += WARP) shared[i] = in[i];
    T* second = shared + 16 * 16;
    for (std::uint32_t i = threadIdx.x; i < 8 * 16; i += WARP) {
        // The transposing load wants rows of the operand, the plain one its columns.
        second[TRANSPOSED ? i % 16 * 8 + i / 16 : i] = in[16 * 16 + i];
    }
    __syncthreads();
    const std::uint32_t lane = threadIdx.x;
    std::uint32_t a[4], b[2];
    load_matrices<4, false>(a, shared + lane % 16 * 16 + lane / 16 * 8);
    if constexpr (TRANSPOSED) {
        std::uint32_t twice[4];
        load_matrices<4, true>(twice, second + lane % 16 * 8);
        b[0] = twice[0];
        b[1] = twice[1];
    } else {
        load_matrices<2, false>(b, second + lane % 8 * 16 + lane / 8 % 2 * 8);
    }
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    multiply_add(sums, a, b, T{});
    for (std::uint32_t i = 0; i < 4; ++i) params.out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

#define LONGWICK_PLANTED(X)                                                                                           \
    X(barrier) X(missing_barrier) X(reuse) X(early_reuse) X(shared_overrun) X(global_overrun) X(async_copied)         \
    X(missing_wait) X(never_waits) X(unaligned_copy) X(wait_for_too_few) X(divergent_barrier) X(exited_thread)        \
    X(barrier_against_shuffle) X(divergent_shuffle) X(masked_shuffle) X(foreign_lane)
#define LONGWICK_PLANTED_KERNEL(name) LONGWICK_KERNEL(planted_##name, PlantedParams, THREADS, name)
LONGWICK_PLANTED(LONGWICK_PLANTED_KERNEL)
LONGWICK_KERNEL(planted_product_bf16, PlantedParams, WARP, product<bf16, false>)
LONGWICK_KERNEL(planted_product_f16, PlantedParams, WARP, product<f16, false>)
LONGWICK_KERNEL(planted_product_transposed, PlantedParams, WARP, product<f16, true>)

struct Planted {
    Entry entry;
    std::uint32_t threads, shared_bytes;
};
#define LONGWICK_PLANTED_ENTRY(name) {LONGWICK_ENTRY(planted_##name), THREADS, 4 * THREADS},
constexpr std::uint32_t MATRIX_BYTES = 2 * (16 * 16 + 8 * 16);
const Planted PLANTED[] = {
    LONGWICK_PLANTED(LONGWICK_PLANTED_ENTRY)
    {LONGWICK_ENTRY(planted_product_bf16), WARP, MATRIX_BYTES},
    {LONGWICK_ENTRY(planted_product_f16), WARP, MATRIX_BYTES},
    {LONGWICK_ENTRY(planted_product_transposed), WARP, MATRIX_BYTES},
};

bool equal(const char* a, const char* b) {
    while (*a != 0 && *a == *b) ++a, ++b;
    return *a == *b;
}

}  // namespace
}  // namespace longwick

// Runs the kernel of that name, as one block.
extern "C" std::int32_t longwick_emu_planted(const char* name, const float* in, float* out, const LongwickStream* stream) {
    const longwick::PlantedParams params = {in, out};
    for (const auto& planted : longwick::PLANTED) {
        if (!longwick::equal(planted.entry.name + sizeof "planted_" - 1, name)) continue;
        return longwick::launch(stream, planted.entry, 1, 1, planted.threads, planted.shared_bytes, params);
    }
    return LONGWICK_BAD_ARGUMENT;
}
