#include "../include/norm.cuh"

namespace longwick {
namespace {

constexpr std::uint32_t THREADS = 128;

LONGWICK_KERNEL(rms_norm_f32, LongwickRmsNormParams, THREADS, rms_norm<float>)
LONGWICK_KERNEL(rms_norm_bf16, LongwickRmsNormParams, THREADS, rms_norm<bf16>)
LONGWICK_KERNEL(rms_norm_f16, LongwickRmsNormParams, THREADS, rms_norm<f16>)

constexpr Entry ENTRIES[] = {LONGWICK_ENTRY(rms_norm_f32), LONGWICK_ENTRY(rms_norm_bf16), LONGWICK_ENTRY(rms_norm_f16)};

}  // namespace
}  // namespace longwick

extern "C" std::int32_t longwick_rms_norm(const LongwickRmsNormParams* params, const LongwickStream* stream) {
    using namespace longwick;
    if (params->dtype > LONGWICK_F16) return LONGWICK_UNSUPPORTED_DTYPE;
    if (params->dim == 0 || params->dim % 8 != 0) return LONGWICK_BAD_ARGUMENT;
    if ((params->residual == nullptr) != (params->sum == nullptr)) return LONGWICK_BAD_ARGUMENT;
    if (params->rows == 0) return LONGWICK_OK;
    return launch(stream, ENTRIES[params->dtype], params->rows, 1, THREADS, THREADS / 32 * sizeof(float), *params);
}
