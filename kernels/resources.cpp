// Prints what each attention kernel asks of a block: name, threads and bytes of dynamic shared memory. `resources.py` builds it from the
// launchers alone.
#include <cstdio>
#include <initializer_list>

#include "csrc/paged_attention.h"

int main() {
    using namespace longwick;
    using Find = const AttentionEntry* (*)(std::uint32_t, std::uint32_t, bool);
    const Find finds[] = {find_attention_f32, find_attention_bf16, find_attention_f16};
    const std::uint32_t dims[] = {16, 32, 64, 80, 96, 128, 256, 512};
    for (const Find find : finds) {
        for (std::uint32_t cache = 0; cache <= LONGWICK_FP8_E4M3; ++cache) {
            for (const std::uint32_t dim : dims) {
                for (const bool is_narrow : {false, true}) {
                    const AttentionEntry* found = find(cache, dim, is_narrow);
                    if (found != nullptr) std::printf("%s %u %u\n", found->entry.name, found->threads, found->shared_bytes);
                }
            }
        }
    }
}
