// Asynchronous copies from global to shared memory (cp.async, sm_80 on).
#pragma once
#include "../platform.cuh"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

// Begins copying `bytes` (0 or 16) to 16 bytes of shared memory, past the first-level cache; the rest becomes zero. Both
// addresses are multiples of 16. A copy of no bytes reads nothing.
#if defined(__CUDACC__)
LONGWICK_DEVICE void async_copy_16(void* shared, const void* global, std::uint32_t bytes) {
    const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(global), "r"(bytes) : "memory");
}

LONGWICK_DEVICE void async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `PENDING` of this thread's newest groups are under way. Other threads see the bytes after a barrier.
template <std::uint32_t PENDING>
LONGWICK_DEVICE void async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
#else
LONGWICK_DEVICE void async_copy_16(void* shared, const void* global, std::uint32_t bytes,
                                   const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    emu::async_copy_16(shared, global, bytes, {file, line});
}

LONGWICK_DEVICE void async_commit() { emu::async_commit(); }

template <std::uint32_t PENDING>
LONGWICK_DEVICE void async_wait() {
    emu::async_wait(PENDING);
}
#endif

}  // namespace longwick
#endif
