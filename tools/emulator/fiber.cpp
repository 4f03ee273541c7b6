// The switch of stacks is a few instructions of our own: swapcontext() asks the kernel twice for each turn of a thread
// and makes the address sanitizer forget the stack.
#include "fiber.hpp"

#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

// Saves what a call must not change, puts the stack's top at *save, and goes on with the stack whose top is `load`.
extern "C" void switch_stacks(void** save, void* load);

#if defined(__x86_64__)
asm(R"(
.text
.globl switch_stacks
.type switch_stacks, @function
switch_stacks:
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
.size switch_stacks, . - switch_stacks
)");
constexpr int SAVED_WORDS = 8, RETURN_WORD = 6;
#elif defined(__aarch64__)
asm(R"(
.text
.globl switch_stacks
.type switch_stacks, %function
switch_stacks:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size switch_stacks, . - switch_stacks
)");
constexpr int SAVED_WORDS = 20, RETURN_WORD = 11;
#else
#error "fibers know the registers of x86-64 and of AArch64"
#endif

namespace emulated {

namespace {

constexpr size_t STACK_BYTES = 256 << 10, GUARD_BYTES = 64 << 10;  // below each stack lies what nobody may touch

Fiber* running = nullptr;
void* resumer_top;  // of the one stack that resumes fibers
const void* resumer_stack;
size_t resumer_bytes;

}  // namespace

Fiber::Fiber(void (*body)()) : body(body) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* const memory = mmap(nullptr, GUARD_BYTES + STACK_BYTES, PROT_NONE, flags, -1, 0);
    if (memory == MAP_FAILED) abort();
    stack = static_cast<char*>(memory) + GUARD_BYTES;
    if (mprotect(stack, STACK_BYTES, PROT_READ | PROT_WRITE) != 0) abort();
    void** const words = reinterpret_cast<void**>(stack + STACK_BYTES) - SAVED_WORDS;
    words[RETURN_WORD] = reinterpret_cast<void*>(&Fiber::begin);
    top = words;
}

Fiber::~Fiber() { munmap(stack - GUARD_BYTES, GUARD_BYTES + STACK_BYTES); }

void Fiber::resume() {
    void* resumer_shadow;
    running = this;
    __sanitizer_start_switch_fiber(&resumer_shadow, stack, STACK_BYTES);
    switch_stacks(&resumer_top, top);
    __sanitizer_finish_switch_fiber(resumer_shadow, nullptr, nullptr);
    running = nullptr;
}

void Fiber::pause() {
    Fiber* const self = running;
    __sanitizer_start_switch_fiber(&self->shadow, resumer_stack, resumer_bytes);
    switch_stacks(&self->top, resumer_top);
    __sanitizer_finish_switch_fiber(self->shadow, &resumer_stack, &resumer_bytes);
}

void Fiber::begin() {
    __sanitizer_finish_switch_fiber(nullptr, &resumer_stack, &resumer_bytes);
    for (;;) {
        running->body();
        pause();
    }
}

}  // namespace emulated
