#include "../include/rope.cuh"

namespace longwick {
namespace {

constexpr std::uint32_t THREADS = 128;

LONGWICK_KERNEL(rope_angles_f32, LongwickRopeAnglesParams, THREADS, rope_angles)
LONGWICK_KERNEL(rope_f32, LongwickRopeParams, THREADS, rope<float>)
LONGWICK_KERNEL(rope_bf16, LongwickRopeParams, THREADS, rope<bf16>)
LONGWICK_KERNEL(rope_f16, LongwickRopeParams, THREADS, rope<f16>)

constexpr Entry ENTRIES[] = {LONGWICK_ENTRY(rope_f32), LONGWICK_ENTRY(rope_bf16), LONGWICK_ENTRY(rope_f16)};

// A grid has fewer blocks than this along x.
constexpr std::uint64_t MAX_BLOCKS = 0x7fffffff;

}  // namespace
}  // namespace longwick

extern "C" std::int32_t longwick_rope_angles(const LongwickRopeAnglesParams* params, const LongwickStream* stream) {
    using namespace longwick;
    const std::uint64_t blocks = (static_cast<std::uint64_t>(params->tokens) * params->pairs + THREADS - 1) / THREADS;
    if (params->pairs == 0 || blocks > MAX_BLOCKS) return LONGWICK_BAD_ARGUMENT;
    if (blocks == 0) return LONGWICK_OK;
    const auto grid = static_cast<std::uint32_t>(blocks);
    return launch(stream, LONGWICK_ENTRY(rope_angles_f32), grid, 1, THREADS, 0, *params);
}

extern "C" std::int32_t longwick_rope(const LongwickRopeParams* params, const LongwickStream* stream) {
    using namespace longwick;
    if (params->dtype > LONGWICK_F16) return LONGWICK_UNSUPPORTED_DTYPE;
    if (params->head_dim == 0 || params->head_dim % 8 != 0 || params->head_dim > 512) return LONGWICK_UNSUPPORTED_HEAD_DIM;
    const bool fits = params->pairs != 0 && params->pairs <= params->head_dim / 2 && params->heads != 0;
    if (!fits || params->layout > LONGWICK_INTERLEAVED) return LONGWICK_BAD_ARGUMENT;
    const std::uint32_t rows = THREADS / 32;
    const std::uint64_t blocks = (static_cast<std::uint64_t>(params->tokens) * params->heads + rows - 1) / rows;
    if (blocks > MAX_BLOCKS) return LONGWICK_BAD_ARGUMENT;
    if (blocks == 0) return LONGWICK_OK;
    const auto grid = static_cast<std::uint32_t>(blocks);
    return launch(stream, ENTRIES[params->dtype], grid, 1, THREADS, rows * params->head_dim * sizeof(float), *params);
}
