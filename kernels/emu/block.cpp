#include "block.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "memory.h"

namespace longwick::emu {

thread_local Index thread_index, block_index, block_extent, grid_extent;

namespace {

constexpr std::size_t WARP = 32;

// The block whose threads run on this host thread.
thread_local Block* current = nullptr;

// Stacks outlive a launch: mapping a thousand of them takes longer than most kernels.
const Stack& stack(std::size_t thread) {
    thread_local std::vector<std::unique_ptr<Stack>> stacks;
    while (stacks.size() <= thread) stacks.push_back(std::make_unique<Stack>());
    return *stacks[thread];
}

std::string describe(std::size_t thread, Site site) {
    return "thread " + std::to_string(thread) + " at " + site.file + ":" + std::to_string(site.line);
}

bool same(Site a, Site b) { return a.line == b.line && std::strcmp(a.file, b.file) == 0; }

}  // namespace

void Permutations::next(std::vector<std::size_t>& permutation, std::size_t count) {
    if (permutation.size() != count) {
        permutation.resize(count);
        std::iota(permutation.begin(), permutation.end(), std::size_t{0});
        if (order_ == Order::Reverse) std::reverse(permutation.begin(), permutation.end());
    }
    if (order_ != Order::Seeded) return;
    for (std::size_t left = count; left > 1; --left) {
        // SplitMix64 (Steele, Lea, Flood 2014).
        std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15u;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
        std::swap(permutation[left - 1], permutation[(mixed ^ (mixed >> 31)) % left]);
    }
}

Block::Block(std::size_t num_threads, std::size_t shared_bytes, Permutations& permutations)
    : threads_(num_threads), permutations_(permutations), shared_bytes_(shared_bytes),
      shared_(guarded_allocate(shared_bytes)) {}

Block::~Block() {
    if (shared_ != nullptr) guarded_free(shared_, shared_bytes_);
}

bool Block::run(Index index, void (*body)(const void*), const void* params) {
    if (shared_ == nullptr) {
        set_fault("no memory for the block's shared memory");
        return false;
    }
    // All ones is NaN in every float format, and no sensible index.
    std::memset(shared_, 0xff, shared_bytes_);
    body_ = body;
    params_ = params;
    block_index = index;
    current = this;
    for (std::size_t thread = 0; thread < threads_.size(); ++thread) {
        threads_[thread].state = State::Ready;
        threads_[thread].copies.clear();
        threads_[thread].context.start(stack(thread), &Block::enter);
    }
    for (;;) {
        bool progressed = false;
        permutations_.next(order_, threads_.size());
        for (std::size_t thread : order_) {
            if (threads_[thread].state != State::Ready) continue;
            progressed = true;
            resume(thread);
            if (fault_.happened) break;
        }
        if (fault_.happened) break;
        const auto finished = [](const Thread& thread) { return thread.state == State::Finished; };
        if (std::all_of(threads_.begin(), threads_.end(), finished)) break;
        if (!progressed && !release_barrier()) break;
    }
    current = nullptr;
    return !fault_.happened;
}

void Block::enter() {
    Block& block = *current;
    Context::arrived_from(block.scheduler_);
    block.body_(block.params_);
    if (block.copies().any()) block.give_up("the thread ended with asynchronous copies under way");
    block.suspend(State::Finished, {"", 0});
    __builtin_unreachable();
}

void Block::resume(std::size_t thread) {
    running_ = thread;
    const auto x = static_cast<unsigned>(thread);
    thread_index = {x % block_extent.x, x / block_extent.x % block_extent.y, x / block_extent.x / block_extent.y};
    scheduler_.switch_to(threads_[thread].context);
}

void Block::suspend(State state, Site site) {
    Thread& thread = threads_[running_];
    thread.state = state;
    thread.site = site;
    thread.context.switch_to(scheduler_);
}

void Block::set_fault(std::string message) {
    fault_.happened = true;
    fault_.message = "block (" + std::to_string(block_index.x) + ", " + std::to_string(block_index.y) + ", " +
                     std::to_string(block_index.z) + "): " + message;
}

void Block::give_up(std::string message) {
    set_fault("thread " + std::to_string(running_) + ": " + message);
    threads_[running_].context.switch_to(scheduler_);
    __builtin_unreachable();
}

void Block::meet_block(Site site) { suspend(State::AtBarrier, site); }

// Called when nothing can run: lets the threads pass if they all wait at one barrier.
bool Block::release_barrier() {
    const auto waits = [](const Thread& thread) { return thread.state == State::AtBarrier; };
    if (!std::all_of(threads_.begin(), threads_.end(), waits)) {
        report_deadlock();
        return false;
    }
    for (std::size_t thread = 1; thread < threads_.size(); ++thread) {
        if (same(threads_[thread].site, threads_[0].site)) continue;
        set_fault("divergent barrier: " + describe(0, threads_[0].site) + ", " +
                  describe(thread, threads_[thread].site));
        return false;
    }
    for (Thread& thread : threads_) thread.state = State::Ready;
    return true;
}

void Block::report_deadlock() {
    std::string message = "threads wait for one another:";
    const State states[] = {State::AtBarrier, State::AtCollective, State::Finished};
    const char* names[] = {" waits for its block", " waits for its warp", " has ended"};
    for (int kind = 0; kind < 3; ++kind) {
        for (std::size_t thread = 0; thread < threads_.size(); ++thread) {
            if (threads_[thread].state != states[kind]) continue;
            const bool ended = states[kind] == State::Finished;
            message += (ended ? " thread " + std::to_string(thread) : " " + describe(thread, threads_[thread].site)) +
                       names[kind] + ";";
            break;
        }
    }
    set_fault(message);
}

void Block::meet_warp(std::uint32_t mask, void* operand, Collective collective, Site site) {
    const std::size_t warp = running_ / WARP;
    const std::uint32_t lane = running_ % WARP;
    if ((mask >> lane & 1) == 0) give_up("a warp collective whose mask leaves out the calling lane");
    Thread& thread = threads_[running_];
    thread.mask = mask;
    thread.operand = operand;
    thread.collective = collective;
    thread.site = site;
    thread.state = State::AtCollective;
    if (!complete_collective(warp, mask)) suspend(State::AtCollective, site);
}

// Runs the collective of the running thread if all lanes of its mask have come.
bool Block::complete_collective(std::size_t warp, std::uint32_t mask) {
    const Thread& caller = threads_[running_];
    void* operands[WARP] = {};
    for (std::size_t lane = 0; lane < WARP; ++lane) {
        if ((mask >> lane & 1) == 0) continue;
        const std::size_t index = warp * WARP + lane;
        if (index >= threads_.size()) give_up("a warp collective that names a lane the block does not have");
        const Thread& thread = threads_[index];
        if (thread.state == State::Finished) give_up("a warp collective that names a lane that has ended");
        if (thread.state != State::AtCollective) return false;
        // A lane may still be in an earlier collective, among lanes that do not include the caller.
        if ((thread.mask >> (running_ % WARP) & 1) == 0) return false;
        if (thread.mask != mask || thread.collective != caller.collective || !same(thread.site, caller.site)) {
            give_up("divergent warp collective: " + describe(running_, caller.site) + ", " +
                    describe(index, thread.site));
        }
        operands[lane] = thread.operand;
    }
    caller.collective(operands, mask);
    for (std::size_t lane = 0; lane < WARP; ++lane) {
        if (mask >> lane & 1) threads_[warp * WARP + lane].state = State::Ready;
    }
    return true;
}

void fault(const char* format, ...) {
    char message[256];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    current->give_up(message);
}

void block_barrier(Site site) { current->meet_block(site); }

void warp_collective(std::uint32_t mask, void* operand, Collective collective, Site site) {
    current->meet_warp(mask, operand, collective, site);
}

unsigned char* shared_memory() { return current->shared(); }

void check_shared(const void* address, std::size_t bytes, std::size_t alignment, Site site) {
    const auto start = reinterpret_cast<std::uintptr_t>(address);
    const auto shared = reinterpret_cast<std::uintptr_t>(current->shared());
    const bool inside = start >= shared && start + bytes <= shared + current->shared_bytes();
    if (!inside) fault("%s:%d: an address outside shared memory", site.file, site.line);
    if (start % alignment != 0) fault("%s:%d: an address not on %zu bytes", site.file, site.line, alignment);
}

void async_copy_16(void* shared, const void* global, std::size_t bytes, Site site) {
    check_shared(shared, 16, 16, site);
    if (bytes > 16) fault("%s:%d: an asynchronous copy of %zu bytes", site.file, site.line, bytes);
    if (reinterpret_cast<std::uintptr_t>(global) % 16 != 0)
        fault("%s:%d: an asynchronous copy from an address not on 16 bytes", site.file, site.line);
    current->copies().begin(shared, global, bytes);
}

void async_commit() { current->copies().commit(); }

void async_wait(std::size_t pending) { current->copies().wait(pending); }

}  // namespace longwick::emu
