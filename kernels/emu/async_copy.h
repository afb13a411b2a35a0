// The asynchronous copies one thread has under way.
#pragma once
#include <cstddef>
#include <deque>
#include <vector>

namespace longwick::emu {

// Copies happen as late as they may: at the wait. The target reads as NaN from the issue on, since the hardware may write it at
// any moment, so that a missing wait and a copy into a buffer still being read both show as wrong results.
class AsyncCopies {
  public:
    void begin(void* shared, const void* global, std::size_t bytes);
    void commit();
    void wait(std::size_t pending);
    // Whether a copy (not merely an empty group) is under way.
    bool any() const;
    void clear();

  private:
    struct Copy {
        void* target;
        const void* source;
        std::size_t bytes;
    };
    std::vector<Copy> open_;
    std::deque<std::vector<Copy>> groups_;
};

}  // namespace longwick::emu
