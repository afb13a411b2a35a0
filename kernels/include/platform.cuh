// The only switch between the compilers of a kernel: nvcc for the card, the host compiler for the emulator, and the host
// compiler for launchers alone (a CUDA build, whose kernels lie in the fatbin).
#pragma once
#include <cstddef>
#include <cstdint>

#include "launch.h"

#if defined(__CUDACC__)

#define LONGWICK_DEVICE __device__ __forceinline__
#define LONGWICK_KERNEL(name, Params, threads, ...) \
    extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ Params params) { __VA_ARGS__(params); }
#define LONGWICK_ENTRY(name) (::longwick::Entry{#name, nullptr})
#define LONGWICK_UNROLL _Pragma("unroll")

#elif defined(LONGWICK_EMU)

#include <cmath>

#include "../emu/runtime.h"

#define LONGWICK_DEVICE __forceinline__
#define LONGWICK_KERNEL(name, Params, threads, ...) \
    static void name(const void* params) { __VA_ARGS__(*static_cast<const Params*>(params)); }
#define LONGWICK_ENTRY(name) (::longwick::Entry{#name, &name})
#define LONGWICK_UNROLL

#else

#define LONGWICK_DEVICE inline
#define LONGWICK_KERNEL(name, Params, threads, ...)
#define LONGWICK_ENTRY(name) (::longwick::Entry{#name, nullptr})
#define LONGWICK_UNROLL

#endif

// Kernel bodies are left out where only launchers are built.
#if defined(__CUDACC__) || defined(LONGWICK_EMU)
#define LONGWICK_HAS_KERNELS 1
#endif

namespace longwick {

// A kernel as a launcher names it.
struct Entry {
    const char* name;
    void (*body)(const void*);
};

// Puts one launch onto a stream.
template <class Params>
std::int32_t launch(const LongwickStream* stream, Entry entry, std::uint32_t x, std::uint32_t y, std::uint32_t threads,
                    std::uint32_t shared_bytes, const Params& params) {
    const LongwickLaunch request = {entry.name, entry.body, {x, y, 1}, threads, shared_bytes, &params, sizeof params};
    return stream->launch(stream->context, &request);
}

#if defined(LONGWICK_HAS_KERNELS)

// The block's dynamic shared memory, on a multiple of 16 bytes.
LONGWICK_DEVICE unsigned char* dynamic_shared() {
#if defined(__CUDACC__)
    extern __shared__ __align__(16) unsigned char longwick_shared[];
    return longwick_shared;
#else
    return emu::shared_memory();
#endif
}

#endif

}  // namespace longwick
