#include "../include/kv_write.cuh"

namespace longwick {
namespace {

constexpr std::uint32_t THREADS = 128;

#define LONGWICK_KV_WRITE(dtype, T)                                                             \
    LONGWICK_KERNEL(kv_write_##dtype##_f32, LongwickKvWriteParams, THREADS, kv_write<T, float>) \
    LONGWICK_KERNEL(kv_write_##dtype##_bf16, LongwickKvWriteParams, THREADS, kv_write<T, bf16>) \
    LONGWICK_KERNEL(kv_write_##dtype##_f16, LongwickKvWriteParams, THREADS, kv_write<T, f16>)   \
    LONGWICK_KERNEL(kv_write_##dtype##_fp8, LongwickKvWriteParams, THREADS, kv_write<T, fp8>)
LONGWICK_KV_WRITE(f32, float)
LONGWICK_KV_WRITE(bf16, bf16)
LONGWICK_KV_WRITE(f16, f16)

#define LONGWICK_KV_WRITE_ENTRIES(dtype)                                         \
    {LONGWICK_ENTRY(kv_write_##dtype##_f32), LONGWICK_ENTRY(kv_write_##dtype##_bf16), \
     LONGWICK_ENTRY(kv_write_##dtype##_f16), LONGWICK_ENTRY(kv_write_##dtype##_fp8)}
// By dtype, then the cache's.
constexpr Entry ENTRIES[][4] = {
    LONGWICK_KV_WRITE_ENTRIES(f32), LONGWICK_KV_WRITE_ENTRIES(bf16), LONGWICK_KV_WRITE_ENTRIES(f16)};

}  // namespace
}  // namespace longwick

extern "C" std::int32_t longwick_kv_write(const LongwickKvWriteParams* params, const LongwickStream* stream) {
    using namespace longwick;
    const LongwickPagedKv& cache = params->cache;
    if (params->dtype > LONGWICK_F16 || cache.dtype > LONGWICK_FP8_E4M3) return LONGWICK_UNSUPPORTED_DTYPE;
    if (cache.head_dim == 0 || cache.head_dim % 8 != 0) return LONGWICK_UNSUPPORTED_HEAD_DIM;
    const bool has_scales = cache.key_scales != nullptr && cache.value_scales != nullptr;
    if (cache.kv_heads == 0 || cache.block_size == 0 || (cache.dtype == LONGWICK_FP8_E4M3 && !has_scales))
        return LONGWICK_BAD_ARGUMENT;
    const std::uint32_t heads = THREADS / 32;
    const std::uint64_t blocks = (static_cast<std::uint64_t>(params->tokens) * cache.kv_heads + heads - 1) / heads;
    if (blocks > 0x7fffffff) return LONGWICK_BAD_ARGUMENT;
    if (blocks == 0) return LONGWICK_OK;
    const auto grid = static_cast<std::uint32_t>(blocks);
    return launch(stream, ENTRIES[params->dtype][cache.dtype], grid, 2, THREADS, 0, *params);
}
