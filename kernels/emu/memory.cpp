#include "memory.h"

#include <sys/mman.h>

namespace longwick::emu {
namespace {

constexpr std::size_t PAGE = 4096;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// Bytes from the map's start (a guard page) to the memory.
std::size_t offset(std::size_t bytes) { return PAGE + round_up(bytes, PAGE) - round_up(bytes, 16); }

}  // namespace

unsigned char* guarded_allocate(std::size_t bytes) {
    const std::size_t inner = round_up(bytes, PAGE);
    void* map =
        mmap(nullptr, inner + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return nullptr;
    auto* start = static_cast<unsigned char*>(map);
    if (inner != 0 && mprotect(start + PAGE, inner, PROT_READ | PROT_WRITE) != 0) {
        munmap(map, inner + 2 * PAGE);
        return nullptr;
    }
    return start + offset(bytes);
}

void guarded_free(unsigned char* memory, std::size_t bytes) {
    munmap(memory - offset(bytes), round_up(bytes, PAGE) + 2 * PAGE);
}

}  // namespace longwick::emu

extern "C" unsigned char* longwick_emu_allocate(std::size_t bytes) { return longwick::emu::guarded_allocate(bytes); }
extern "C" void longwick_emu_free(unsigned char* memory, std::size_t bytes) {
    longwick::emu::guarded_free(memory, bytes);
}
