// What a kernel sees of the emulator: `include/platform.cuh` includes this when the host compiler builds a kernel.
//
// What is modelled: one fiber per thread; a block barrier that all threads must meet at one call site; warp collectives over
// the lanes of a mask; dynamic shared memory that begins as NaN and ends at a guard page; asynchronous copies whose bytes are
// NaN from the issue to the wait. What is not: speed, and races between accesses that no order of whole fibers shows.
#pragma once
#include <cstddef>
#include <cstdint>

namespace longwick::emu {

// Where a kernel waits. Threads that wait together must wait at one site.
struct Site {
    const char* file;
    int line;
};

struct Index {
    unsigned x, y, z;
};

// Of the thread that runs now.
extern thread_local Index thread_index, block_index, block_extent, grid_extent;

// Ends the launch with a message (printf's format). What the other threads hold on their stacks is dropped.
[[noreturn]] void fault(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Waits for all threads of the block.
void block_barrier(Site site);

// Computes what all lanes of `mask` get from what all lanes gave. `operands[lane]` is the lane's own.
using Collective = void (*)(void* const operands[32], std::uint32_t mask);

// Waits for the lanes of `mask`, which must all bring the same collective, mask and site.
void warp_collective(std::uint32_t mask, void* operand, Collective collective, Site site);

// The block's dynamic shared memory.
unsigned char* shared_memory();

// Faults unless `bytes` at `address` lie in shared memory, on a multiple of `alignment`.
void check_shared(const void* address, std::size_t bytes, std::size_t alignment, Site site);

// Begins copying `bytes` (0 to 16) from global memory to 16 bytes of shared memory; the rest becomes zero.
void async_copy_16(void* shared, const void* global, std::size_t bytes, Site site);

// Closes the group of copies begun since the last call.
void async_commit();

// Waits until at most `pending` of the thread's newest groups are under way.
void async_wait(std::size_t pending);

}  // namespace longwick::emu

#define threadIdx (::longwick::emu::thread_index)
#define blockIdx (::longwick::emu::block_index)
#define blockDim (::longwick::emu::block_extent)
#define gridDim (::longwick::emu::grid_extent)
#define __device__
#define __forceinline__ inline __attribute__((always_inline))

// The default arguments are evaluated at the call, so the site is the kernel's line.
inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    ::longwick::emu::block_barrier({file, line});
}
