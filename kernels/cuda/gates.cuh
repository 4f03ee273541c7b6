// Barriers in shared memory that count arrivals, for threads that come early and look later: between the two a warp
// goes on with its work, so none waits for the slowest unless it is far ahead of it (PTX `mbarrier`, from 8.0 on).
//
// A phase ends when all arrivals are there; the parity tells phases apart. A new gate is in phase 0, and counts the one
// before as ended.
#pragma once

typedef unsigned long long Gate;

#ifndef EMULATED  // an emulation on the CPU brings its own functions
__device__ __forceinline__ unsigned int gate_address(const Gate* gate) {
    return static_cast<unsigned int>(__cvta_generic_to_shared(gate));
}

__device__ __forceinline__ void set_up_gate(Gate* gate, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(gate_address(gate)), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive_at(Gate* gate) {
    asm volatile("{.reg .b64 phase; mbarrier.arrive.shared.b64 phase, [%0];}" ::"r"(gate_address(gate)) : "memory");
}

// Arrives once all copies are there that this thread has asked for. It does not wait for them.
__device__ __forceinline__ void arrive_when_copied(Gate* gate) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(gate_address(gate)) : "memory");
}

__device__ __forceinline__ bool has_ended(const Gate* gate, unsigned int parity) {
    unsigned int ended;
    asm volatile(
        "{.reg .pred p;\n"
#if __CUDA_ARCH__ >= 900
        "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
#else
        "mbarrier.test_wait.parity.shared.b64 p, [%1], %2;\n"
#endif
        "selp.u32 %0, 1, 0, p;}"
        : "=r"(ended)
        : "r"(gate_address(gate)), "r"(parity)
        : "memory");
    return ended;
}
#endif

// For the end of the phase of this parity.
__device__ __forceinline__ void wait_at(const Gate* gate, unsigned int parity) {
    while (!has_ended(gate, parity)) {
    }
}
