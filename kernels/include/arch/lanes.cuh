// Exchanges between the lanes of a warp.
#pragma once
#include "dtype.cuh"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

constexpr std::uint32_t WARP = 32;
constexpr std::uint32_t ALL_LANES = 0xffffffffu;

// The value of the lane whose number differs in the bits of `lane_bits`.
#if defined(__CUDACC__)
LONGWICK_DEVICE float shuffle_xor(float value, std::uint32_t lane_bits) {
    return __shfl_xor_sync(ALL_LANES, value, lane_bits);
}

// Whether `condition` holds in any lane.
LONGWICK_DEVICE bool any_lane(bool condition) { return __any_sync(ALL_LANES, condition) != 0; }
#else
struct ShuffleOperand {
    float value;
    std::uint32_t lane_bits;
    float result;
};

inline void shuffle_collective(void* const operands[WARP], std::uint32_t mask) {
    for (std::uint32_t lane = 0; lane < WARP; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        auto* own = static_cast<ShuffleOperand*>(operands[lane]);
        const auto* other = static_cast<const ShuffleOperand*>(operands[lane ^ own->lane_bits]);
        if (other == nullptr) emu::fault("a shuffle reads lane %u, which is not in its mask", lane ^ own->lane_bits);
        own->result = other->value;
    }
}

LONGWICK_DEVICE float shuffle_xor(float value, std::uint32_t lane_bits, std::uint32_t mask = ALL_LANES,
                                  const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    ShuffleOperand operand = {value, lane_bits, 0.0f};
    emu::warp_collective(mask, &operand, shuffle_collective, {file, line});
    return operand.result;
}

inline void any_collective(void* const operands[WARP], std::uint32_t mask) {
    bool any = false;
    for (std::uint32_t lane = 0; lane < WARP; ++lane) any |= (mask >> lane & 1) && *static_cast<bool*>(operands[lane]);
    for (std::uint32_t lane = 0; lane < WARP; ++lane) {
        if (mask >> lane & 1) *static_cast<bool*>(operands[lane]) = any;
    }
}

LONGWICK_DEVICE bool any_lane(bool condition, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    emu::warp_collective(ALL_LANES, &condition, any_collective, {file, line});
    return condition;
}
#endif

// The sum over the warp, the same bits in every lane: lanes pairwise, 16 apart, then 8, 4, 2 and 1.
LONGWICK_DEVICE float warp_sum(float value) {
    LONGWICK_UNROLL
    for (std::uint32_t apart = WARP / 2; apart > 0; apart /= 2) value += shuffle_xor(value, apart);
    return value;
}

LONGWICK_DEVICE float warp_max(float value) {
    LONGWICK_UNROLL
    for (std::uint32_t apart = WARP / 2; apart > 0; apart /= 2) value = fmaxf(value, shuffle_xor(value, apart));
    return value;
}

}  // namespace longwick
#endif
