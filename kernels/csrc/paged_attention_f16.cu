#include "paged_attention.h"

namespace longwick {
namespace {

LONGWICK_ATTENTION(f16_f16, f16, 2, f16)
LONGWICK_ATTENTION(f16_fp8, f16, 2, fp8)

}  // namespace

const AttentionEntry* find_attention_f16(std::uint32_t cache_dtype, std::uint32_t head_dim, bool is_narrow) {
    if (cache_dtype == LONGWICK_F16) return find_f16_f16(head_dim, is_narrow);
    if (cache_dtype == LONGWICK_FP8_E4M3) return find_f16_fp8(head_dim, is_narrow);
    return nullptr;
}

}  // namespace longwick
