// Rotary position embedding, optionally after a norm over the head.
//
// Scaling rules (linear, YaRN, proportional, partial rotation) differ in the inverse frequencies and the attention factor alone.
#pragma once
#include "arch/lanes.cuh"
#include "arch/vector.cuh"
#include "params.h"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

// Rows (one head of one token each) a block of the rotation: one a warp.
constexpr std::uint32_t ROPE_WARPS = 4;

// cos and sin of f32(position) * inverse frequency. The angle is rounded to f32, as the models were trained; its cosine and sine are
// taken in f64, since at 200,000 tokens an f32 reduction costs digits.
LONGWICK_DEVICE void rope_angles(const LongwickRopeAnglesParams& params) {
    const std::size_t index = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= static_cast<std::size_t>(params.tokens) * params.pairs) return;
    const float position = static_cast<float>(params.positions[index / params.pairs]);
    const float angle = position * params.inverse_frequencies[index % params.pairs];
    params.cosines[index] = static_cast<float>(cos(static_cast<double>(angle))) * params.attention_factor;
    params.sines[index] = static_cast<float>(sin(static_cast<double>(angle))) * params.attention_factor;
}

// What an element turns with.
struct RopePlace {
    std::uint32_t pair;
    std::uint32_t partner;
    bool is_first;  // of the two
};

LONGWICK_DEVICE RopePlace rope_place(std::uint32_t element, std::uint32_t pairs, std::uint32_t layout) {
    if (layout == LONGWICK_INTERLEAVED) return {element / 2, element ^ 1, element % 2 == 0};
    if (element < pairs) return {element, element + pairs, true};
    return {element - pairs, element - pairs, false};
}

// One warp a row. The row passes through shared memory, since an element's partner may be in another lane.
template <class T>
LONGWICK_DEVICE void rope(const LongwickRopeParams& params) {
    const std::uint32_t lane = threadIdx.x % WARP;
    const std::size_t row = static_cast<std::size_t>(blockIdx.x) * ROPE_WARPS + threadIdx.x / WARP;
    const bool is_present = row < static_cast<std::size_t>(params.tokens) * params.heads;
    float* head = reinterpret_cast<float*>(dynamic_shared()) + threadIdx.x / WARP * params.head_dim;
    const std::uint32_t end = is_present ? params.head_dim : 0;
    float values[VECTOR];
    float squares = 0.0f;
    for (std::uint32_t i = lane * VECTOR; i < end; i += WARP * VECTOR) {
        load_vector(static_cast<const T*>(params.x) + row * params.head_dim + i, values);
        LONGWICK_UNROLL
        for (std::uint32_t j = 0; j < VECTOR; ++j) squares = fmaf(values[j], values[j], squares);
        store_vector(head + i, values);
    }
    if (params.norm_weight != nullptr) {
        const float mean = warp_sum(squares) / static_cast<float>(params.head_dim);
        const float scale = 1.0f / sqrtf(mean + params.epsilon);
        for (std::uint32_t i = lane * VECTOR; i < end; i += WARP * VECTOR) {
            float weight[VECTOR];
            load_vector(head + i, values);
            load_vector(params.norm_weight + i, weight);
            LONGWICK_UNROLL
            for (std::uint32_t j = 0; j < VECTOR; ++j) values[j] = values[j] * scale * weight[j];
            store_vector(head + i, values);
        }
    }
    __syncthreads();
    const std::size_t angles = row / params.heads * params.pairs;
    for (std::uint32_t i = lane * VECTOR; i < end; i += WARP * VECTOR) {
        LONGWICK_UNROLL
        for (std::uint32_t j = 0; j < VECTOR; ++j) {
            const std::uint32_t element = i + j;
            values[j] = head[element];
            if (element >= 2 * params.pairs) continue;
            const RopePlace place = rope_place(element, params.pairs, params.layout);
            const float turned = head[place.partner] * params.sines[angles + place.pair];
            const float kept = values[j] * params.cosines[angles + place.pair];
            values[j] = place.is_first ? kept - turned : kept + turned;
        }
        store_vector(static_cast<T*>(params.out) + row * params.head_dim + i, values);
    }
}

}  // namespace longwick
#endif
