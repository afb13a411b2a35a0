#include "paged_attention.h"

namespace longwick {
namespace {

LONGWICK_ATTENTION(bf16_bf16, bf16, 2, bf16)
LONGWICK_ATTENTION(bf16_fp8, bf16, 2, fp8)

}  // namespace

const AttentionEntry* find_attention_bf16(std::uint32_t cache_dtype, std::uint32_t head_dim, bool is_narrow) {
    if (cache_dtype == LONGWICK_BF16) return find_bf16_bf16(head_dim, is_narrow);
    if (cache_dtype == LONGWICK_FP8_E4M3) return find_bf16_fp8(head_dim, is_narrow);
    return nullptr;
}

}  // namespace longwick
