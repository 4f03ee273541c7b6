// What the second-level cache is told of boxes that bulk copies bring and take. Parameter HINTS: 0, nothing; 1, that
// lines of C may leave it first, since nobody reads them again; 2, those of B too, so that A's stay: a group of rows
// of tiles goes through all columns of B, and needs each only once.
#pragma once

#include "hopper.cuh"

#if !defined(HINTS) || HINTS == 0
#define store_c_box store_box
#else
// PTX: createpolicy.
__device__ __forceinline__ unsigned long long leaves_first() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ void store_c_box(unsigned int shared, const TensorMap& map, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%1, {%2, %3, %4}], [%0], %5;" ::"r"(
            shared),
        "l"(&map), "r"(x), "r"(y), "r"(z), "l"(leaves_first())
        : "memory");
}
#endif

#if !defined(HINTS) || HINTS < 2
#define load_b_box load_box
#define load_b_box_for load_box_for
#else
__device__ __forceinline__ void load_b_box(unsigned int shared, const TensorMap& map, unsigned int barrier, int x,
                                           int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(shared),
        "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(leaves_first())
        : "memory");
}

__device__ __forceinline__ void load_b_box_for(unsigned short ranks, unsigned int shared, const TensorMap& map,
                                               unsigned int barrier, int x, int y, int z) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
        " [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(shared),
        "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(ranks), "l"(leaves_first())
        : "memory");
}
#endif
