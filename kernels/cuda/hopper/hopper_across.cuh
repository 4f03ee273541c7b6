// MN-major operands of 32-bit words or of bytes, without transposing them first. wgmma reads such operands from shared
// memory only K-major; but its first operand may come from registers, which threads can fill from anywhere
// (hopper_fragments.cuh). So for a plain A·B, whose B is MN-major, the kernel computes Cᵀ = Bᵀ·Aᵀ: Bᵀ is the first
// operand, and A's rows are the second.
//
// Which column of B becomes which row of the instruction is free, as long as C is stored by the same mapping. A thread
// has two adjacent columns, as rows g and g + 8 of its warp's 16. They are mapped so that neither reads of B nor writes
// of C have bank conflicts.
//
// Idea: cuBLAS's TF32 kernels take their first operand from registers where it is MN-major.
#pragma once

#include "hopper_fragments.cuh"

static_assert(!FROM_REGISTERS || (sizeof(Element) != 2 && sizeof(Delivered) == 4), "sums have 32 bits");

#ifndef EMULATED  // an emulation on the CPU brings its own words
__device__ __forceinline__ void write_two(unsigned int shared, float first, float second) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(shared), "f"(first), "f"(second) : "memory");
}

__device__ __forceinline__ void write_two(unsigned int shared, int first, int second) {
    asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(shared), "r"(first), "r"(second) : "memory");
}

// A barrier of two warps. Each pair of warps has a number of its own, from 1 on.
__device__ __forceinline__ void sync_warp_pair(int number) {
    asm volatile("bar.sync %0, 64;" ::"r"(number) : "memory");
}
#endif

#ifdef HAS_ACTIVATION
// Computes a box of D from a box of Z, with so many threads, 16 bytes at a time. Elements keep their places, so it does
// not matter which element is where.
template <int THREADS_OF_BOX>
__device__ __forceinline__ void activate_box(unsigned int z, unsigned int d, int thread) {
#pragma unroll 1
    for (int at = thread * 16; at < OUT_BYTES; at += THREADS_OF_BOX * 16) {
        float words[4];
        read_four(words, z + at);
#pragma unroll
        for (float& word : words)
            word = __uint_as_float(activated_word(__float_as_uint(word)));
        write_four(d + at, words);
    }
}
#endif

// A stage is multiplied in parts, each a group of instructions of its own. While AHEAD groups run, the registers of the
// group before them are filled for the part AHEAD further on; so the last parts of a stage read from the next stage.
// Three warpgroups keep the tensor cores busy for each other, and have no registers for more than one part ahead.
template <int N>
__device__ __forceinline__ void multiply_across(const Shared& at, int consumer, int steps, StageState& place,
                                                HOPPER_SUM (&sums)[N / 2]) {
    constexpr int PARTS = SWIZZLE_BYTES / DEPTH_BYTES, DEPTH = DEPTH_BYTES / static_cast<int>(sizeof(Element));
    constexpr int AHEAD = CONSUMERS == 2 ? 2 : 1, SETS = 2 * AHEAD;  // of registers
    if (steps == 0) return;
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const Fragments<sizeof(Element)> fragments(consumer, warp, lane);
    unsigned int words[SETS][4];
    const auto read = [&](int stage, int part) {
        fragments.read(words[part % SETS], at.a(stage, 0) + part * DEPTH * A_LINE);
    };
    wait_barrier(at.full(place.stage), place.parity);
#pragma unroll
    for (int part = 0; part < AHEAD; ++part)
        read(place.stage, part);
    int before = -1;
    for (int step = 0; step < steps; ++step) {
        const int present = place.stage;
        const unsigned long long b = tile_descriptor(at.b(present, 0), BOX_BYTES);
        place.advance();
        const bool more = step + 1 < steps;
        const int next = more ? place.stage : present;  // after the last one, what is there is read again, for nothing
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            wgmma_fence();
            RegisterMma<N>::add(sums, words[part % SETS], offset_descriptor(b, part * DEPTH_BYTES));
            wgmma_commit_group();
            wgmma_wait_group<AHEAD>();  // of which none reads the words that are filled next
            if (part == AHEAD - 1 && before >= 0) release(at, before);
            if (part == PARTS - AHEAD && more) wait_barrier(at.full(place.stage), place.parity);
            read(part < PARTS - AHEAD ? present : next, (part + AHEAD) % PARTS);
        }
        before = present;
    }
    wgmma_wait_group<0>();
    fence_accumulators(sums);
    release(at, before);
}

// A warp has the sums of 16 columns of C, and two warps together those of 32: they fill boxes of 16 rows by turns. A
// box is written again only after its store has read it: the one warp waits for that before a barrier of both.
template <int N>
__device__ __forceinline__ void store_transposed(const Shared& at, const TensorMap& map, const Sizes& sizes,
                                                 const Work& work, int consumer, int& boxes_stored,
                                                 const HOPPER_SUM (&sums)[N / 2], const Epilogue& epilogue) {
    constexpr int ROWS = OUT_BYTES / SWIZZLE_BYTES, BOXES_OF_TWO = 2 * OUT_BOXES;
#ifdef HAS_ACTIVATION
    constexpr int TOGETHER = 2;  // boxes: Z's and D's
#else
    constexpr int TOGETHER = 1;
#endif
    constexpr int PENDING = BOXES_OF_TWO / TOGETHER - 2;  // stores that may still read; -1: not even one while it fills
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, two = consumer * 2 + warp / 2;
    const int column = work.row + two * OUT_COLUMNS;
    if (column >= sizes.m) return;
    const unsigned int out = at.base + OUT_OFFSET + two * BOXES_OF_TWO * OUT_BYTES;
    const Pair pair(warp, lane);
    const int even = pair.place(lane % 4 * 2), odd = pair.place(lane % 4 * 2 + 1);
#pragma unroll
    for (int box = 0; box < N / ROWS; ++box) {
        if (box * ROWS >= work.columns) break;
        if constexpr (PENDING < 0) {
            wait_stores_read<0>();
            sync_warp_pair(1 + two);
        }
        const int row = work.column + box * ROWS;
        unsigned int shared = out + boxes_stored++ % BOXES_OF_TWO * OUT_BYTES;
#pragma unroll
        for (int eight = 0; eight < ROWS / 8; ++eight) {
            const HOPPER_SUM* const from = &sums[(box * ROWS / 8 + eight) * 4];
            HOPPER_SUM four[4] = {from[0], from[1], from[2], from[3]};
            const int first = row + eight * 8 + lane % 4 * 2;
            epilogue.add(four[0], four[2], work.item, first, column + pair.column());
            epilogue.add(four[1], four[3], work.item, first + 1, column + pair.column());
            const unsigned int to = shared + eight * SWIZZLE_ATOM;
            write_two(to + even, four[0], four[2]);
            write_two(to + odd, four[1], four[3]);
        }
#ifdef HAS_ACTIVATION
        sync_warp_pair(1 + two);  // Z's box is written
        const unsigned int z = shared;
        shared = out + boxes_stored++ % BOXES_OF_TWO * OUT_BYTES;
        activate_box<2 * 32>(z, shared, warp % 2 * 32 + lane);
#endif
        fence_for_copies();
        if constexpr (PENDING >= 0) wait_stores_read<PENDING>();
        sync_warp_pair(1 + two);
        if (warp % 2 == 0 && lane == 0) {
#ifdef HAS_ACTIVATION
            store_box(z, epilogue.z, column, row, work.item);
#endif
            store_box(shared, map, column, row, work.item);
        }
        commit_stores();
    }
}
