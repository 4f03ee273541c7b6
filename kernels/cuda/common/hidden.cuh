// What is computed again rather than kept in registers.
#pragma once

#ifndef EMULATED  // an emulation on the CPU brings its own word
// A number the compiler does not know to be the same as before: what follows from it is computed again where it is
// needed, rather than kept in registers that the sums want.
__device__ __forceinline__ int hidden(int value) {
    int same;
    asm volatile("mov.b32 %0, %1;" : "=r"(same) : "r"(value));
    return same;
}
#endif
