// Memory that faults one byte past its end.
#pragma once
#include <cstddef>

namespace longwick::emu {

// Zeroed memory before an inaccessible page, which begins where the bytes (rounded up to 16) end. Pages that nothing touches
// cost nothing, so a pool may be far larger than the machine. Null when the system has no address space left.
unsigned char* guarded_allocate(std::size_t bytes);

// Gives back what `guarded_allocate(bytes)` gave.
void guarded_free(unsigned char* memory, std::size_t bytes);

}  // namespace longwick::emu
