#include "async_copy.h"

#include <cstring>

namespace longwick::emu {

void AsyncCopies::begin(void* shared, const void* global, std::size_t bytes) {
    std::memset(shared, 0xff, 16);
    open_.push_back({shared, global, bytes});
}

void AsyncCopies::commit() {
    // An empty group counts as one, as on the hardware: kernels rely on it at the end of their pipelines.
    groups_.push_back(std::move(open_));
    open_.clear();
}

void AsyncCopies::wait(std::size_t pending) {
    while (groups_.size() > pending) {
        for (const Copy& copy : groups_.front()) {
            std::memset(copy.target, 0, 16);
            // Nothing is read for a copy of no bytes, whatever its source.
            if (copy.bytes != 0) std::memcpy(copy.target, copy.source, copy.bytes);
        }
        groups_.pop_front();
    }
}

bool AsyncCopies::any() const {
    if (!open_.empty()) return true;
    for (const auto& group : groups_) {
        if (!group.empty()) return true;
    }
    return false;
}

void AsyncCopies::clear() {
    open_.clear();
    groups_.clear();
}

}  // namespace longwick::emu
