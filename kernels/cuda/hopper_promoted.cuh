// Included by hopper_stages.cuh, whose words it uses: how a consumer multiplies where the tensor cores keep few bits of
// a sum. Theirs end with each stage, and are added up here in float32. (DeepSeek-V3 Technical Report, arXiv 2412.19437,
// section 3.3.2.) A stage's columns are multiplied in rounds of four instructions, and each round begins partial sums
// of its own: so there are registers for these beside the sums of the whole tile.
//
// Parameter OVERLAP, what the tensor cores do while threads add:
// FREE: what the other warpgroup has for them, if it has.
// BY_TURNS: the other warpgroup's round, and no two rounds mix: one begins when half of the other has ended. (CUTLASS's
// ordered barriers; FlashAttention-3, arXiv 2407.08608, section 3.1.)
// TWO_SETS: the next round of the same warpgroup, in a second set of partial sums.
#pragma once

constexpr int FREE = 0, BY_TURNS = 1, TWO_SETS = 2;
constexpr bool TAKES_TURNS = PROMOTED && OVERLAP == BY_TURNS;
constexpr int PARTS = SWIZZLE_BYTES / DEPTH_BYTES;  // instructions of a round

// Of a tile of N columns. Sums of the tile and partial ones are at most 192 of a thread.
template <int N>
struct Rounds {
    static constexpr int COLUMNS = N == 192 ? 96 : N == 64 || (OVERLAP == TWO_SETS && N == 256) ? 64 : 128;
    static constexpr int COUNT = N / COLUMNS;  // of a stage
    static constexpr int AT_ONCE = 8 / COUNT;  // stages in which two sets of partial sums take turns
    typedef HOPPER_SUM Partial[COLUMNS / 2];
};

#ifndef EMULATED  // an emulation on the CPU brings its own words
// A barrier of the block by its number (0 is __syncthreads'), for so many threads: these join, or arrive and go on, in
// whole warps.
__device__ __forceinline__ void join_named(int barrier, int threads) {
    __syncwarp();
    asm volatile("barrier.sync.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void arrive_named(int barrier, int threads) {
    __syncwarp();
    asm volatile("barrier.arrive.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// What is the same in all threads of a warp, so that the compiler knows it.
__device__ __forceinline__ int alike(int value) { return __shfl_sync(0xffffffffu, value, 0); }
#endif

// ---- turns: consumer 0 is first in every tile that both multiply, and 1 gives it the very first turn ----
__device__ __forceinline__ void await_turn(int consumer) { join_named(1 + consumer, CONSUMERS * WARPGROUP); }
__device__ __forceinline__ void hand_over(int consumer) { arrive_named(2 - consumer, CONSUMERS * WARPGROUP); }

__device__ __forceinline__ void begin_turns(int consumer) {
    if (TAKES_TURNS && consumer == 1) hand_over(consumer);
}

__device__ __forceinline__ void end_turns(int consumer) {
    if (TAKES_TURNS && consumer == 0) await_turn(consumer);
}

// ---- one round ----
struct Operands {
    unsigned long long a, b;

    // Of a stage that is known to be the same for all threads, descriptors are computed once for a warp, between the
    // instructions; else in every thread, and handed over one by one.
    __device__ __forceinline__ Operands(const Shared& at, int consumer, int stage) {
        const int uniform = alike(stage);
        a = tile_descriptor(at.a(uniform, consumer), BOX_BYTES);
        b = tile_descriptor(at.b(uniform, 0), BOX_BYTES);
    }
};

template <int COLUMNS, bool IN_HALVES>
__device__ __forceinline__ void begin_round(const Operands& operands, int column, HOPPER_SUM (&partial)[COLUMNS / 2]) {
    const unsigned long long b = moved(operands.b, column * SWIZZLE_BYTES);
    fence_sums();
    Mma<COLUMNS>::begin(partial, operands.a, b);
#pragma unroll
    for (int part = 1; part < PARTS; ++part) {
        if (IN_HALVES && part == PARTS / 2) commit_products();
        Mma<COLUMNS>::add(partial, moved(operands.a, part * DEPTH_BYTES), moved(b, part * DEPTH_BYTES));
    }
    commit_products();
}

template <int COUNT>
__device__ __forceinline__ void promote(const HOPPER_SUM (&partial)[COUNT], HOPPER_SUM* sums) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
        sums[i] += partial[i];
}

// Waits for the stage after this one while instructions still run, and not when they have ended.
__device__ __forceinline__ void expect_next(const Shared& at, Place place, bool more) {
    place.advance();
    if (more) wait_barrier(at.full(place.stage), place.parity);
}

// ---- one set of partial sums; the first stage is there ----
template <int N, bool IN_TURN>
__device__ __forceinline__ void promote_one_set(const Shared& at, int consumer, int steps, Place& place,
                                                HOPPER_SUM (&sums)[N / 2]) {
    constexpr int COLUMNS = Rounds<N>::COLUMNS;
    typename Rounds<N>::Partial partial = {};
#pragma unroll 1
    for (int step = 0; step < steps; ++step, place.advance()) {
        const Operands operands(at, consumer, place.stage);
#pragma unroll
        for (int column = 0; column < N; column += COLUMNS) {
            const bool is_last = column + COLUMNS == N;
            if (IN_TURN) await_turn(consumer);
            begin_round<COLUMNS, IN_TURN>(operands, column, partial);
            if (IN_TURN) {
                wait_products<1>();
                hand_over(consumer);
            }
            if (is_last) expect_next(at, place, step + 1 < steps);
            wait_products<0>();
            settle(partial);
            if (is_last) release(at, place.stage);
            promote(partial, sums + column / 2);
        }
    }
}

// ---- two sets of partial sums; the first stage is there ----
// With each round the one before is waited for and added. After AT_ONCE stages all rounds are: where sums that an
// earlier turn of a loop began are read while instructions run, the compiler lets these wait for each other.
template <int N>
__device__ __forceinline__ void promote_two_sets(const Shared& at, int consumer, int steps, Place& place,
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
                begin_round<COLUMNS, false>(operands, column, partial[set]);
                const bool is_last = column + COLUMNS == N;
                if (is_last && stage + 1 < AT_ONCE) expect_next(at, place, true);
                if (stage == 0 && column == 0) continue;
                wait_products<1>();
                settle(partial[1 - set]);
                if (column == 0) release(at, before);
                promote(partial[1 - set], sums + (column + N - COLUMNS) % N / 2);
            }
            if (stage + 1 == AT_ONCE) expect_next(at, place, step + AT_ONCE < steps);
            before = place.stage;
            place.advance();
        }
        wait_products<0>();
        settle(partial[1]);
        release(at, before);
        promote(partial[1], sums + (N - COLUMNS) / 2);
    }
    promote_one_set<N, false>(at, consumer, steps - step, place, sums);
}

// `alone`: the other consumer has no rows in this tile.
template <int N>
__device__ __forceinline__ void multiply_and_promote(const Shared& at, int given_consumer, bool alone, int steps,
                                                     Place& place, HOPPER_SUM (&sums)[N / 2]) {
    const int consumer = alike(given_consumer);
    if (steps > 0) wait_barrier(at.full(place.stage), place.parity);
    if constexpr (OVERLAP == TWO_SETS)
        promote_two_sets<N>(at, consumer, steps, place, sums);
    else if (TAKES_TURNS && !alone)
        promote_one_set<N, true>(at, consumer, steps, place, sums);
    else
        promote_one_set<N, false>(at, consumer, steps, place, sums);
}
