#include "../include/gated.cuh"

namespace longwick {
namespace {

constexpr std::uint32_t THREADS = 128;
constexpr std::uint32_t MAX_ROWS_OF_BLOCKS = 65535;

#define LONGWICK_GATED(name, Activation)                                              \
    LONGWICK_KERNEL(name##_f32, LongwickGatedParams, THREADS, gated<float, Activation>) \
    LONGWICK_KERNEL(name##_bf16, LongwickGatedParams, THREADS, gated<bf16, Activation>) \
    LONGWICK_KERNEL(name##_f16, LongwickGatedParams, THREADS, gated<f16, Activation>)
LONGWICK_GATED(silu_mul, Silu)
LONGWICK_GATED(gelu_tanh_mul, GeluTanh)
LONGWICK_GATED(clamped_swiglu, ClampedSwiglu)

#define LONGWICK_GATED_ENTRIES(name) {LONGWICK_ENTRY(name##_f32), LONGWICK_ENTRY(name##_bf16), LONGWICK_ENTRY(name##_f16)}
// By activation, then dtype.
constexpr Entry ENTRIES[][3] = {
    LONGWICK_GATED_ENTRIES(silu_mul), LONGWICK_GATED_ENTRIES(gelu_tanh_mul), LONGWICK_GATED_ENTRIES(clamped_swiglu)};

}  // namespace
}  // namespace longwick

extern "C" std::int32_t longwick_gated(const LongwickGatedParams* params, const LongwickStream* stream) {
    using namespace longwick;
    if (params->dtype > LONGWICK_F16) return LONGWICK_UNSUPPORTED_DTYPE;
    const bool fits = params->dim != 0 && params->dim % 8 == 0 && params->row_stride >= params->dim;
    if (!fits || params->row_stride % 8 != 0 || params->activation > LONGWICK_CLAMPED_SWIGLU) return LONGWICK_BAD_ARGUMENT;
    if (params->rows == 0) return LONGWICK_OK;
    const std::uint32_t columns = (params->dim / 8 + THREADS - 1) / THREADS;
    const std::uint32_t rows = params->rows < MAX_ROWS_OF_BLOCKS ? params->rows : MAX_ROWS_OF_BLOCKS;
    return launch(stream, ENTRIES[params->activation][params->dtype], columns, rows, THREADS, 0, *params);
}
