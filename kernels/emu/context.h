// What the emulator's stream carries. Mirrored by `EmuContext` in Rust.
#pragma once
#include <cstdint>

extern "C" {

struct LongwickEmuContext {
    std::uint32_t order;  // longwick::emu::Order
    std::uint64_t seed;
    char message[512];  // what a failed launch says, ended by a zero byte
};

}  // extern "C"
