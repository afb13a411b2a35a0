// The C interface between launchers and whatever runs a kernel: the emulator, or the CUDA driver.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {

// What a launcher returns. Mirrored by `Status` in Rust.
enum LongwickStatus : std::int32_t {
    LONGWICK_OK = 0,
    LONGWICK_UNSUPPORTED_DTYPE = 1,
    LONGWICK_UNSUPPORTED_HEAD_DIM = 2,
    LONGWICK_BAD_ARGUMENT = 3,
    LONGWICK_LAUNCH_FAILED = 4,
};

// One kernel over one grid of one-dimensional blocks.
struct LongwickLaunch {
    const char* kernel;         // the entry's name in the fatbin
    void (*body)(const void*);  // the entry itself, built for the emulator; null in a build without it
    std::uint32_t grid[3];
    std::uint32_t threads;       // a block
    std::uint32_t shared_bytes;  // dynamic, a block
    const void* params;          // the kernel's one argument, by value
    std::size_t params_bytes;
};

// Where launches go, in order. Mirrored by `RawStream` in Rust.
struct LongwickStream {
    std::int32_t (*launch)(void* context, const LongwickLaunch* launch);
    void* context;
};

}  // extern "C"
