// Included by hopper_stages.cuh: how a consumer multiplies where the tensor cores keep few bits of a sum. Their sums
// end with each stage, and threads add them up in float32. (DeepSeek-V3 Technical Report, arXiv 2412.19437, section
// 3.3.2.)
//
// A stage's columns are multiplied in rounds of four instructions. Each round begins its own partial sums, so that
// there are registers for two sets of them beside the sums of the whole tile: the next round runs in the other set
// while threads add. With block scales, partial sums are multiplied by the scales first (hopper_scales.cuh); `scales`
// is then the tile's TileScales, and otherwise absent. There is then one set, of wider rounds: while threads multiply
// and add, the tensor cores work for the other warpgroup.
#pragma once

#ifdef SCALE_COLUMNS
#include "hopper_scales.cuh"
#endif

constexpr int PARTS = SWIZZLE_BYTES / DEPTH_BYTES;  // instructions of a round

// Of a tile of N columns. Sums of the tile and partial ones are at most 192 of a thread.
template <int N>
struct Rounds {
    static constexpr int COLUMNS = N == 128 || (N == 256 && HAS_SCALES) ? 128 : N == 192 ? 96 : 64;
    static constexpr int COUNT = N / COLUMNS;  // of a stage
    static constexpr int AT_ONCE = 8 / COUNT;  // stages in which two sets of partial sums take turns
    typedef HOPPER_SUM Partial[COLUMNS / 2];
};

// ---- one round ----
struct Operands {
    unsigned long long a, b;

    // Of a stage that is known to be the same for all threads, descriptors are computed once for a warp, between the
    // instructions; else in every thread, and handed over one by one.
    __device__ __forceinline__ Operands(const Shared& at, int consumer, int stage) {
        const int uniform = warp_uniform(stage);
        a = tile_descriptor(at.a(uniform, consumer), BOX_BYTES);
        b = tile_descriptor(at.b(uniform, 0), BOX_BYTES);
    }
};

template <int COLUMNS>
__device__ __forceinline__ void begin_round(const Operands& operands, int column, HOPPER_SUM (&partial)[COLUMNS / 2]) {
    const unsigned long long b = offset_descriptor(operands.b, column * SWIZZLE_BYTES);
    wgmma_fence();
    Mma<COLUMNS>::begin(partial, operands.a, b);
#pragma unroll
    for (int part = 1; part < PARTS; ++part)
        Mma<COLUMNS>::add(partial, offset_descriptor(operands.a, part * DEPTH_BYTES),
                          offset_descriptor(b, part * DEPTH_BYTES));
    wgmma_commit_group();
}

template <int COUNT>
__device__ __forceinline__ void promote(const HOPPER_SUM (&partial)[COUNT], HOPPER_SUM* sums, int) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
        sums[i] += partial[i];
}

// Waits for the stage after this one while instructions still run, and not when they have ended.
__device__ __forceinline__ void wait_for_next(const Shared& at, StageState place, bool more) {
    place.advance();
    if (more) wait_barrier(at.full(place.stage), place.parity);
}

// ---- one set of partial sums, for stages that are too few for two; the first one is there ----
template <int N, typename... TileScales>
__device__ __forceinline__ void promote_one_set(const Shared& at, int consumer, int steps, StageState& place,
                                                HOPPER_SUM (&sums)[N / 2], TileScales&... scales) {
    constexpr int COLUMNS = Rounds<N>::COLUMNS;
    typename Rounds<N>::Partial partial = {};
#pragma unroll 1
    for (int step = 0; step < steps; ++step, place.advance()) {
        const Operands operands(at, consumer, place.stage);
#pragma unroll
        for (int column = 0; column < N; column += COLUMNS) {
            const bool is_last = column + COLUMNS == N;
            begin_round<COLUMNS>(operands, column, partial);
            if (is_last) wait_for_next(at, place, step + 1 < steps);
            wgmma_wait_group<0>();
            fence_accumulators(partial);
            if (is_last && !HAS_SCALES) release(at, place.stage);
            promote(partial, sums + column / 2, column, scales...);
            if (is_last && HAS_SCALES) release(at, place.stage);  // its scales have been read, too
        }
    }
}

// ---- two sets of partial sums; the first stage is there ----
// With each round the one before is waited for and added. After AT_ONCE stages all rounds are: where sums that an
// earlier iteration began are read while instructions run, the compiler lets these wait for each other.
template <int N>
__device__ __forceinline__ void promote_two_sets(const Shared& at, int consumer, int steps, StageState& place,
                                                 HOPPER_SUM (&sums)[N / 2]) {
    constexpr int COLUMNS = Rounds<N>::COLUMNS, COUNT = Rounds<N>::COUNT, AT_ONCE = Rounds<N>::AT_ONCE;
    typename Rounds<N>::Partial partial[2] = {};
    int step = 0;
#pragma unroll 1
    for (; step + AT_ONCE <= steps; step += AT_ONCE) {
        int before = place.stage;
#pragma unroll
        for (int stage = 0; stage < AT_ONCE; ++stage) {
            const Operands operands(at, consumer, place.stage);
#pragma unroll
            for (int column = 0; column < N; column += COLUMNS) {
                const int set = (stage * COUNT + column / COLUMNS) % 2;
                begin_round<COLUMNS>(operands, column, partial[set]);
                const bool is_last = column + COLUMNS == N;
                if (is_last && stage + 1 < AT_ONCE) wait_for_next(at, place, true);
                if (stage == 0 && column == 0) continue;
                wgmma_wait_group<1>();
                fence_accumulators(partial[1 - set]);
                if (column == 0) release(at, before);
                const int first = (column + N - COLUMNS) % N;
                promote(partial[1 - set], sums + first / 2, first);
            }
            if (stage + 1 == AT_ONCE) wait_for_next(at, place, step + AT_ONCE < steps);
            before = place.stage;
            place.advance();
        }
        wgmma_wait_group<0>();
        fence_accumulators(partial[1]);
        release(at, before);
        promote(partial[1], sums + (N - COLUMNS) / 2, N - COLUMNS);
    }
    promote_one_set<N>(at, consumer, steps - step, place, sums);
}

template <int N, typename... TileScales>
__device__ __forceinline__ void multiply_and_promote(const Shared& at, int given_consumer, int steps, StageState& place,
                                                     HOPPER_SUM (&sums)[N / 2], TileScales&... scales) {
    const int consumer = warp_uniform(given_consumer);
    if (steps > 0) wait_barrier(at.full(place.stage), place.parity);
    if constexpr (HAS_SCALES)
        promote_one_set<N>(at, consumer, steps, place, sums, scales...);
    else
        promote_two_sets<N>(at, consumer, steps, place, sums);
}
