// One fiber stands for one CUDA thread: a stack of its own, and a switch that costs a few nanoseconds.
#pragma once
#include <cstddef>

namespace longwick::emu {

// A stack between two inaccessible pages, so that an overflow faults instead of reaching a neighbour.
class Stack {
  public:
    Stack();
    ~Stack();
    Stack(const Stack&) = delete;
    Stack& operator=(const Stack&) = delete;

    unsigned char* bottom() const { return bottom_; }
    static std::size_t size();

  private:
    unsigned char* bottom_;
};

// Where an execution stands while another one runs: a fiber's, or the scheduler's (which has no `Stack`).
class Context {
  public:
    // Makes the context begin at `entry`, on `stack`, when it is next switched to. `entry` must never return.
    void start(const Stack& stack, void (*entry)());

    // Runs `next` until something switches back here.
    void switch_to(Context& next);

    // Must be the first call of an `entry`: the sanitizer learns which stack the fiber came from.
    static void arrived_from(Context& previous);

  private:
    void* stack_pointer_ = nullptr;
    const void* stack_bottom_ = nullptr;
    std::size_t stack_size_ = 0;
#if !defined(__x86_64__)
    void* portable_ = nullptr;
#endif
};

}  // namespace longwick::emu
