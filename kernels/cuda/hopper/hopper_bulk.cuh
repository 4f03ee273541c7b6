// Bulk copies of bytes that lie one after another, from global to shared memory: 16 of them, or multiples of that.
#pragma once

#include "hopper.cuh"

#ifndef EMULATED  // an emulation on the CPU brings its own words
// `barrier` counts the bytes.
__device__ __forceinline__ void load_run(unsigned int shared, const void* global, unsigned int barrier, int bytes) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %3, [%2];" ::"r"(shared),
        "l"(global), "r"(barrier), "r"(bytes)
        : "memory");
}

// To the same place of every block whose bit in `ranks` is set; each one's own barrier counts them.
__device__ __forceinline__ void load_run_for(unsigned short ranks, unsigned int shared, const void* global,
                                             unsigned int barrier, int bytes) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %3, [%2], "
        "%4;" ::"r"(shared),
        "l"(global), "r"(barrier), "r"(bytes), "h"(ranks)
        : "memory");
}
#endif
