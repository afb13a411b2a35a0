// Root-mean-square norm over rows, with the residual sum before it.
#pragma once
#include "arch/lanes.cuh"
#include "arch/vector.cuh"
#include "params.h"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

// The sum over a block of whole warps, the same bits in every thread; `scratch` holds a float a warp. Warps add up in ascending order.
LONGWICK_DEVICE float block_sum(float value, float* scratch) {
    value = warp_sum(value);
    if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = value;
    __syncthreads();
    float total = 0.0f;
    for (std::uint32_t warp = 0; warp < blockDim.x / WARP; ++warp) total += scratch[warp];
    return total;
}

// One block a row: out = weight * s / sqrt(mean(s^2) + epsilon), where s is x, or x + residual rounded to T (which is also stored).
template <class T>
LONGWICK_DEVICE void rms_norm(const LongwickRmsNormParams& params) {
    const std::size_t start = static_cast<std::size_t>(blockIdx.x) * params.dim;
    const T* x = static_cast<const T*>(params.x) + start;
    T* sum = static_cast<T*>(params.sum) + start;
    float squares = 0.0f;
    float values[VECTOR];
    for (std::uint32_t i = threadIdx.x * VECTOR; i < params.dim; i += blockDim.x * VECTOR) {
        load_vector(x + i, values);
        if (params.residual != nullptr) {
            float residual[VECTOR];
            load_vector(static_cast<const T*>(params.residual) + start + i, residual);
            LONGWICK_UNROLL
            for (std::uint32_t j = 0; j < VECTOR; ++j) values[j] = to_float(from_float<T>(values[j] + residual[j]));
            store_vector(sum + i, values);
        }
        LONGWICK_UNROLL
        for (std::uint32_t j = 0; j < VECTOR; ++j) squares = fmaf(values[j], values[j], squares);
    }
    const float mean = block_sum(squares, reinterpret_cast<float*>(dynamic_shared())) / static_cast<float>(params.dim);
    const float scale = 1.0f / sqrtf(mean + params.epsilon);
    // Each thread reads back what it wrote itself.
    const T* normed = params.residual != nullptr ? sum : x;
    T* out = static_cast<T*>(params.out) + start;
    for (std::uint32_t i = threadIdx.x * VECTOR; i < params.dim; i += blockDim.x * VECTOR) {
        float weight[VECTOR];
        load_vector(normed + i, values);
        load_vector(params.weight + i, weight);
        LONGWICK_UNROLL
        for (std::uint32_t j = 0; j < VECTOR; ++j) values[j] = values[j] * scale * weight[j];
        store_vector(out + i, values);
    }
}

}  // namespace longwick
#endif
