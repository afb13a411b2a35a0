// Gated activations: out = activation(gate) * up.
#pragma once
#include "arch/vector.cuh"
#include "params.h"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

LONGWICK_DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// gate * sigmoid(gate) * up.
struct Silu {
    LONGWICK_DEVICE static float apply(float gate, float up, const LongwickGatedParams&) {
        return gate * sigmoid(gate) * up;
    }
};

// GELU by its tanh form, times up (Hendrycks and Gimpel 2016).
struct GeluTanh {
    LONGWICK_DEVICE static float apply(float gate, float up, const LongwickGatedParams&) {
        const float inner = 0.7978845608028654f * fmaf(0.044715f * gate * gate, gate, gate);
        return 0.5f * gate * (1.0f + tanhf(inner)) * up;
    }
};

// gpt-oss: with both clamped (the gate from above alone), (up + 1) * gate * sigmoid(alpha * gate).
struct ClampedSwiglu {
    LONGWICK_DEVICE static float apply(float gate, float up, const LongwickGatedParams& params) {
        // Written so that a NaN stays one, where fminf would replace it by the limit.
        gate = gate > params.limit ? params.limit : gate;
        up = up > params.limit ? params.limit : up < -params.limit ? -params.limit : up;
        return (up + 1.0f) * gate * sigmoid(params.alpha * gate);
    }
};

// One thread eight elements; blocks along y are rows, in strides of the grid.
template <class T, class Activation>
LONGWICK_DEVICE void gated(const LongwickGatedParams& params) {
    const std::uint32_t column = (blockIdx.x * blockDim.x + threadIdx.x) * VECTOR;
    if (column >= params.dim) return;
    for (std::uint32_t row = blockIdx.y; row < params.rows; row += gridDim.y) {
        float gate[VECTOR], up[VECTOR];
        const std::int64_t from = row * params.row_stride + column;
        load_vector(static_cast<const T*>(params.gate) + from, gate);
        load_vector(static_cast<const T*>(params.up) + from, up);
        LONGWICK_UNROLL
        for (std::uint32_t j = 0; j < VECTOR; ++j) gate[j] = Activation::apply(gate[j], up[j], params);
        store_vector(static_cast<T*>(params.out) + static_cast<std::size_t>(row) * params.dim + column, gate);
    }
}

}  // namespace longwick
#endif
