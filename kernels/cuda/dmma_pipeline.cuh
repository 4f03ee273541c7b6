// A block's tiles of float64 on their way through stages of shared memory, and the loop that multiplies them.
#pragma once
#include "dmma_warp.cuh"
#include "gates.cuh"

static_assert(STAGES >= 2, "a pipeline has a tile to multiply and at least one on its way");
static_assert(!APART || AHEAD * 2 < ITEMS, "warps that come early to a gate look at it when they have multiplied more");

// Of a stage: one tile of A, one of B, and where barriers are APART, the gates that say that both are there, and that
// nobody reads them any more.
constexpr int PAIR = LayoutA::ELEMENTS + LayoutB::ELEMENTS, STAGE = PAIR + (APART ? 2 : 0);
constexpr int FIRST_COPIES = APART ? AHEAD : 0;  // the item of a tile that the first copies go with

__device__ __forceinline__ Gate* filled(double* stage) { return reinterpret_cast<Gate*>(stage + PAIR); }
__device__ __forceinline__ Gate* vacated(double* stage) { return reinterpret_cast<Gate*>(stage + PAIR) + 1; }

// A place in the ring of stages, with the parity of its gates' phase. With gates, the ring goes on from one product to
// the next.
struct Ring {
    int stage = 0;  // where it begins
    unsigned int parity = 0;

    __device__ __forceinline__ Ring next() const {
        const bool last = stage == (STAGES - 1) * STAGE;
        return {last ? 0 : stage + STAGE, parity ^ last};
    }
    __device__ __forceinline__ Ring before() const {
        return {stage == 0 ? (STAGES - 1) * STAGE : stage - STAGE, parity ^ (stage == 0)};
    }
};

// Called by all threads, before all else.
__device__ __forceinline__ void set_up_gates(double* tiles) {
    if (!APART) return;
    if (threadIdx.x == 0)
        for (int stage = 0; stage < STAGES; ++stage) {
            set_up_gate(filled(tiles + stage * STAGE), THREADS);
            set_up_gate(vacated(tiles + stage * STAGE), THREADS / 32);
        }
    __syncthreads();
}

// Both operands' couriers. What they copy while a tile is multiplied is dealt out evenly among PARTS of that.
template <typename OfA, typename OfB>
struct Couriers {
    static constexpr int SHARES = OfA::SHARES + OfB::SHARES, PARTS = (ITEMS - AHEAD) * SLABS_N;
    OfA a;
    OfB b;

    __device__ __forceinline__ void copy(bool asked, double* pair, int part) {
#pragma unroll
        for (int share = SHARES * part / PARTS; share < SHARES * (part + 1) / PARTS; ++share)
            if (share < OfA::SHARES)
                a.copy(asked, pair, share);
            else
                b.copy(asked, pair + LayoutA::ELEMENTS, share - OfA::SHARES);
    }

    // Ends what goes into a stage. Groups of copies count tiles, so there is one for each, were it past the last.
    __device__ __forceinline__ static void end_copies(bool asked, double* stage) {
        if (!APART)
            commit_copies();
        else if (asked)
            arrive_when_copied(filled(stage));
    }

    // Puts the first tiles on their way.
    __device__ __forceinline__ void begin(double* tiles, int count, Index k, Index lda, Index ldb, Ring ring) {
        const Index before = (count - 1) * static_cast<Index>(BLOCK_K);
        double* const first = tiles + ring.stage;
        if (count > 0) {
            a.copy_last(first, A_ALONG_K ? before : before * lda, static_cast<int>(k - before));
            b.copy_last(first + LayoutA::ELEMENTS, B_ALONG_K ? before : before * ldb, static_cast<int>(k - before));
        }
        end_copies(count > 0, first);
#pragma unroll 1
        for (int tile = 1; tile < STAGES - 1; ++tile) {
            ring = ring.next();
#pragma unroll
            for (int part = 0; part < PARTS; ++part)
                copy(tile < count, tiles + ring.stage, part);
            end_copies(tile < count, tiles + ring.stage);
        }
    }

    // Goes on from where `begin` of others like these came to.
    __device__ __forceinline__ void skip_first() {
        a.skip(STAGES - 2);
        b.skip(STAGES - 2);
    }
};

// Until the pair in the stage is there.
__device__ __forceinline__ void wait_filled(double* tiles, Ring ring) {
    if (APART) {
        wait_at(filled(tiles + ring.stage), ring.parity);
    } else {
        wait_copies<STAGES - 2>();
        __syncthreads();
    }
}

// This warp has read all of the stage.
__device__ __forceinline__ void leave(double* stage) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) arrive_at(vacated(stage));
}

// Multiplies one product, `count` tiles of k. A warp leaves out slabs that lie outside C. Between the barrier and the
// end of a tile, what is left to be multiplied of it has been read already: the first slabs of the next one come in the
// meantime. Where barriers are APART, warps have come to the one that the next tile's copies are there a tile before,
// and copy into what they have left only some items after.
template <bool ALL, typename Copying>
__device__ __forceinline__ void multiply_tiles(WarpProduct& warp, Slabs there, Copying& couriers, double* tiles,
                                               int count, Ring& ring) {
    Ring vacant = ring.before();
    if (!APART || count > 0) wait_filled(tiles, ring);
#pragma unroll
    for (int item = 0; item < AHEAD; ++item)
        warp.template read<ALL>(tiles + ring.stage, item, there);
    for (int left = count; left > 0; --left) {
        const bool more = left >= STAGES;
        const Ring present = ring;
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            if (APART && item == FIRST_COPIES && more) wait_at(vacated(tiles + vacant.stage), vacant.parity);
            if (item == ITEMS - AHEAD) {
                ring = present.next();
                if (APART) {
                    leave(tiles + present.stage);
                    if (left > 1) wait_filled(tiles, ring);
                } else {
                    commit_copies();
                    wait_filled(tiles, ring);  // for all, and none reads the present one any more
                    vacant = present;
                }
            }
            warp.template read<ALL>(tiles + ring.stage, item + AHEAD, there);  // garbage past the last tile
#pragma unroll
            for (int j = 0; j < SLABS_N; ++j) {
                const int part = (item - FIRST_COPIES) * SLABS_N + j;
                if (part >= 0 && part < Copying::PARTS) couriers.copy(more, tiles + vacant.stage, part);
                warp.template multiply<ALL>(item, j, there);
            }
        }
        if (APART) {
            Copying::end_copies(more, tiles + vacant.stage);
            vacant = present;
        }
    }
    if (!APART) {
        wait_copies<0>();
        ring = Ring();
    }
    __syncthreads();  // the next product begins with all stages vacant
}

// A block's part of C, and its warp's. It is asked for anew where it is needed: sums and slabs leave no registers to
// keep it in.
struct Part {
    Index row, column;          // of C, where the tile begins
    int rows, columns;          // of it, that lie in C
    int warp_row, warp_column;  // of it, where the warp's part begins

    __device__ __forceinline__ Part(int down, int across, Index m, Index n)
        : row(kept(down) * static_cast<Index>(BLOCK_M)),
          column(kept(across) * static_cast<Index>(BLOCK_N)),
          rows(within(BLOCK_M, m - row)),
          columns(within(BLOCK_N, n - column)),
          warp_row(kept(threadIdx.x / 32) / WARPS_N * WARP_M),
          warp_column(kept(threadIdx.x / 32) % WARPS_N * WARP_N) {}

    __device__ __forceinline__ static int within(int side, Index left) {
        return left < side ? static_cast<int>(left) : side;
    }
    __device__ __forceinline__ bool whole() const { return rows == BLOCK_M && columns == BLOCK_N; }
};

// What a block multiplies for its part: tiles of the operands from these corners on, over so many steps.
struct Operands {
    const double *corner_a, *corner_b;
    Index k, lda, ldb;

    __device__ __forceinline__ int tiles() const { return static_cast<int>((k + BLOCK_K - 1) / BLOCK_K); }
};

// How a part's operands are copied: COUNT elements at a time, with guards or without.
template <int COUNT, bool GUARDED>
struct Way {
    using OfA = Courier<BLOCK_M, A_ALONG_K, COUNT, GUARDED, THREADS>;
    using OfB = Courier<BLOCK_N, B_ALONG_K, COUNT, GUARDED, THREADS>;
    using Both = Couriers<OfA, OfB>;

    __device__ __forceinline__ static Both couriers(const Part& part, const Operands& of) {
        return {OfA(of.corner_a, of.lda, part.rows), OfB(of.corner_b, of.ldb, part.columns)};
    }
    __device__ __forceinline__ static void begin(Both& couriers, const Operands& of, double* tiles, Ring ring) {
        couriers.begin(tiles, of.tiles(), of.k, of.lda, of.ldb, ring);
    }
    __device__ __forceinline__ static void multiply(WarpProduct& warp, Both& couriers, const Part& part, int count,
                                                    double* tiles, Ring& ring) {
        const Slabs there(part.rows - part.warp_row, part.columns - part.warp_column);
        if (!GUARDED || there.are_all())
            multiply_tiles<true>(warp, there, couriers, tiles, count, ring);
        else
            multiply_tiles<false>(warp, there, couriers, tiles, count, ring);
    }
};

// Calls `work` with the Way of a part. Work is a struct rather than a lambda: NVRTC 13.0 takes a generic one for a
// function of the host.
template <typename Work>
__device__ __forceinline__ void in_its_way(bool aligned, bool whole, const Work& work) {
    if (aligned && whole)
        work(Way<2, false>());
    else if (aligned)
        work(Way<2, true>());
    else if (whole)
        work(Way<1, false>());
    else
        work(Way<1, true>());
}
