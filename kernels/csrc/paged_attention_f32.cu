#include "paged_attention.h"

namespace longwick {
namespace {

LONGWICK_ATTENTION(f32_f32, float, 4, float)
LONGWICK_ATTENTION(f32_fp8, float, 4, fp8)

}  // namespace

const AttentionEntry* find_attention_f32(std::uint32_t cache_dtype, std::uint32_t head_dim, bool is_narrow) {
    if (cache_dtype == LONGWICK_F32) return find_f32_f32(head_dim, is_narrow);
    if (cache_dtype == LONGWICK_FP8_E4M3) return find_f32_fp8(head_dim, is_narrow);
    return nullptr;
}

}  // namespace longwick
