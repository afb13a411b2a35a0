// The emulator's stream: runs a launch at once, block by block, on the calling host thread.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "../include/launch.h"
#include "block.h"
#include "context.h"

namespace {

using namespace longwick;

// A CUDA block has at most 1,024 threads, and on the smallest card we build for 99 KiB of shared memory.
constexpr std::uint32_t MAX_THREADS = 1024;
constexpr std::uint32_t MAX_SHARED_BYTES = 99 * 1024;

// Blocks that ran on this host thread, by kernel.
thread_local std::map<std::string, std::uint64_t> blocks_run;

}  // namespace

extern "C" {

std::int32_t longwick_emu_launch(void* opaque, const LongwickLaunch* launch) {
    auto* context = static_cast<LongwickEmuContext*>(opaque);
    const auto refuse = [context](const std::string& message) {
        const std::size_t length = std::min(message.size(), sizeof context->message - 1);
        std::memcpy(context->message, message.data(), length);
        context->message[length] = 0;
        return static_cast<std::int32_t>(LONGWICK_LAUNCH_FAILED);
    };
    if (launch->body == nullptr) return refuse("the kernel was not built for the emulator");
    if (launch->threads == 0 || launch->threads > MAX_THREADS) return refuse("a block of 0 or over 1024 threads");
    if (launch->shared_bytes > MAX_SHARED_BYTES) return refuse("over 99 KiB of shared memory");
    if (launch->grid[1] > 65535 || launch->grid[2] > 65535) return refuse("a grid of over 65535 in y or z");

    emu::grid_extent = {launch->grid[0], launch->grid[1], launch->grid[2]};
    emu::block_extent = {launch->threads, 1, 1};
    emu::Permutations permutations(static_cast<emu::Order>(context->order), context->seed);
    emu::Block block(launch->threads, launch->shared_bytes, permutations);
    std::vector<std::size_t> order;
    const std::size_t plane = std::size_t{launch->grid[0]} * launch->grid[1];
    permutations.next(order, plane * launch->grid[2]);
    std::uint64_t& blocks = blocks_run[launch->kernel];
    for (std::size_t index : order) {
        const emu::Index place = {static_cast<unsigned>(index % launch->grid[0]),
                                  static_cast<unsigned>(index / launch->grid[0] % launch->grid[1]),
                                  static_cast<unsigned>(index / plane)};
        if (!block.run(place, launch->body, launch->params)) return refuse(block.last_fault().message);
        ++blocks;
    }
    return LONGWICK_OK;
}

std::uint64_t longwick_emu_blocks_run(const char* prefix) {
    std::uint64_t blocks = 0;
    for (const auto& [kernel, count] : blocks_run) {
        if (kernel.compare(0, std::strlen(prefix), prefix) == 0) blocks += count;
    }
    return blocks;
}

}  // extern "C"
