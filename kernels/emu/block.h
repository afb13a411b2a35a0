// Runs the threads of one block, in a chosen order, from one meeting to the next.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "async_copy.h"
#include "fiber.h"
#include "runtime.h"

namespace longwick::emu {

// In which order the threads of a block, and the blocks of a grid, run. The numbers are the C interface's.
enum class Order : std::uint32_t { Forward = 0, Reverse = 1, Seeded = 2 };

// Hands out permutations: the same for the same seed.
class Permutations {
  public:
    Permutations(Order order, std::uint64_t seed) : order_(order), state_(seed) {}
    void next(std::vector<std::size_t>& permutation, std::size_t count);

  private:
    Order order_;
    std::uint64_t state_;
};

// A launch whose kernel was given up.
struct Fault {
    bool happened = false;
    std::string message;
};

class Block {
  public:
    Block(std::size_t num_threads, std::size_t shared_bytes, Permutations& permutations);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    // Runs every thread to its end; false after a fault.
    bool run(Index index, void (*body)(const void*), const void* params);

    const Fault& last_fault() const { return fault_; }

    // What `runtime.h` offers, for the thread that runs now.
    [[noreturn]] void give_up(std::string message);
    void meet_block(Site site);
    void meet_warp(std::uint32_t mask, void* operand, Collective collective, Site site);
    unsigned char* shared() const { return shared_; }
    std::size_t shared_bytes() const { return shared_bytes_; }
    AsyncCopies& copies() { return threads_[running_].copies; }

  private:
    enum class State { Ready, AtBarrier, AtCollective, Finished };

    struct Thread {
        Context context;
        State state = State::Finished;
        Site site = {"", 0};
        std::uint32_t mask = 0;
        void* operand = nullptr;
        Collective collective = nullptr;
        AsyncCopies copies;
    };

    static void enter();
    void resume(std::size_t thread);
    void suspend(State state, Site site);
    bool complete_collective(std::size_t warp, std::uint32_t mask);
    bool release_barrier();
    void report_deadlock();
    void set_fault(std::string message);

    std::vector<Thread> threads_;
    std::vector<std::size_t> order_;
    Permutations& permutations_;
    Context scheduler_;
    std::size_t running_ = 0;
    std::size_t shared_bytes_;
    unsigned char* shared_;
    void (*body_)(const void*) = nullptr;
    const void* params_ = nullptr;
    Fault fault_;
};

}  // namespace longwick::emu
