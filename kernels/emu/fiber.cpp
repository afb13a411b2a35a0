#include "fiber.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace longwick::emu {
namespace {

constexpr std::size_t PAGE = 4096;
// Instrumented frames are several times larger.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t STACK_BYTES = 512 * 1024;
#else
constexpr std::size_t STACK_BYTES = 128 * 1024;
#endif

}  // namespace

std::size_t Stack::size() { return STACK_BYTES; }

Stack::Stack() {
    void* map = mmap(nullptr, STACK_BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        std::perror("longwick emulator: no memory for a fiber's stack");
        std::abort();
    }
    bottom_ = static_cast<unsigned char*>(map) + PAGE;
    mprotect(bottom_, STACK_BYTES, PROT_READ | PROT_WRITE);
}

Stack::~Stack() {
#if defined(__SANITIZE_ADDRESS__)
    // Whatever is mapped here next must not meet the guards of frames that a fault abandoned.
    __asan_unpoison_memory_region(bottom_, STACK_BYTES);
#endif
    munmap(bottom_ - PAGE, STACK_BYTES + 2 * PAGE);
}

#if defined(__x86_64__)
// Saves the registers that a System V callee must keep, swaps stacks, and returns into the other execution.
extern "C" void longwick_emu_switch(void** save, void* load);
asm(R"(
    .text
    .globl longwick_emu_switch
    .hidden longwick_emu_switch
    .type longwick_emu_switch, @function
longwick_emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size longwick_emu_switch, . - longwick_emu_switch
)");
#endif

void Context::start(const Stack& stack, void (*entry)()) {
    stack_bottom_ = stack.bottom();
    stack_size_ = Stack::size();
#if defined(__SANITIZE_ADDRESS__)
    // A fiber that a fault abandoned leaves the guards of its frames behind.
    __asan_unpoison_memory_region(stack.bottom(), stack_size_);
#endif
#if defined(__x86_64__)
    // Six registers, then the address that `ret` takes, then a slot that keeps the stack aligned as if `entry` had been called.
    auto* top = reinterpret_cast<std::uintptr_t*>(stack.bottom() + stack_size_);
    *--top = 0;
    *--top = reinterpret_cast<std::uintptr_t>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = 0;
    stack_pointer_ = top;
#else
    static_assert(sizeof(ucontext_t) < PAGE);
    auto* context = reinterpret_cast<ucontext_t*>(stack.bottom());
    getcontext(context);
    context->uc_stack.ss_sp = stack.bottom() + PAGE;
    context->uc_stack.ss_size = stack_size_ - PAGE;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    portable_ = context;
#endif
}

void Context::switch_to(Context& next) {
#if defined(__SANITIZE_ADDRESS__)
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, next.stack_bottom_, next.stack_size_);
#endif
#if defined(__x86_64__)
    longwick_emu_switch(&stack_pointer_, next.stack_pointer_);
#else
    ucontext_t here;
    if (stack_bottom_ == nullptr || portable_ == nullptr) portable_ = &here;
    swapcontext(static_cast<ucontext_t*>(portable_), static_cast<ucontext_t*>(next.portable_));
    if (portable_ == &here) portable_ = nullptr;
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Context::arrived_from([[maybe_unused]] Context& previous) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &previous.stack_bottom_, &previous.stack_size_);
#endif
}

}  // namespace longwick::emu
