// What the kernels that emulate other types by products of bytes share: the matrix instruction of int8 with sums of
// int32, and blocks of one producer warpgroup and two consumers, whose warps release a ring's slots each for itself.
#pragma once

#define HOPPER_SUM int
#define HOPPER_SUM_REGISTER "+r"
#define HOPPER_MMA "k32.s32.s8.s8"
#define HOPPER_MMA_END ""
#include "hopper_bulk.cuh"
#include "hopper_mma.cuh"

constexpr int CONSUMERS = 2;  // warpgroups
constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
constexpr int PRODUCER_REGISTERS = 56, CONSUMER_REGISTERS = 224;
constexpr int INSTRUCTION_DEPTH = 32;  // bytes of a line that one instruction multiplies

// `ring.empty`: the barrier by which a slot's producer knows that it may be filled again.
template <class Ring>
__device__ __forceinline__ void release(const Ring& ring, int slot) {
    const int lane = threadIdx.x % 32;
    if (CLUSTER == 1) {
        if (lane == 0) arrive(ring.empty(slot));
    } else if (lane < CLUSTER) {
        arrive_at_rank(ring.empty(slot), lane);
    }
}
