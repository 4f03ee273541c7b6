// Tiles of two operands that a pipeline of asynchronous copies loads, and their product: the common part of `pipelined`
// and `strassen`.
#pragma once

#include "async.cuh"
#include "warp_tiles.cuh"

static_assert(sizeof(Element) >= 4, "an asynchronous copy moves at least 4 bytes, so elements must have as many");
static_assert(sizeof(Element) == sizeof(Accumulator), "tiles hold elements as they are stored");
static_assert(BLOCK_K % 2 == 0, "steps take turns in two sets of fragments");
static_assert(STAGES >= 2, "a pipeline has a tile to multiply and at least one on its way");

// Copies tiles of one operand, one BLOCK_K after the other; compare TileLoader in tiles.cuh.
template <int OUTER, bool ALONG_K>
struct Courier {
    static constexpr int LINE = ALONG_K ? BLOCK_K : OUTER, LINES = ALONG_K ? OUTER : BLOCK_K;
    static constexpr int COUNT = ALONG_K ? 1 : lesser(GROUP, LINE);  // elements of one copy
    static constexpr int ACROSS = LINE / COUNT;
    static constexpr int DOWN = THREADS / ACROSS;  // lines from one copy of a thread to its next
    static constexpr int SHARE = (LINES + DOWN - 1) / DOWN;
    static constexpr int ROW = OUTER + TILE_PADDING;
    static constexpr int WORDS = BLOCK_K * ROW;
    static_assert(THREADS % ACROSS == 0, "each thread copies runs of the same place in their lines");
    static_assert(LINES % DOWN == 0 || LINES < DOWN, "each thread copies as many runs as every other, or none");

    const Element* from;  // this thread's first run of the next tile
    Index ld;
    int outers;       // how many of the tile's rows or columns lie in the operand
    int line, first;  // of that run within the tile
    bool aligned;

    __device__ __forceinline__ Courier(const Element* corner, Index ld, Index outers, bool aligned)
        : from(corner + threadIdx.x / ACROSS * ld + threadIdx.x % ACROSS * COUNT),
          ld(ld),
          outers(outers < OUTER ? static_cast<int>(outers) : OUTER),
          line(threadIdx.x / ACROSS),
          first(threadIdx.x % ACROSS * COUNT),
          aligned(aligned) {}

    // Starts to copy the next tile, of which `depths` steps lie in the operand. Elements outside become zero: a copy
    // can read less than it writes, so edges need no branch if rows are aligned.
    template <bool GUARDED>
    __device__ __forceinline__ void copy(Accumulator* tile, Index depths) {
        const int depth = depths < BLOCK_K ? static_cast<int>(depths) : BLOCK_K;
        const int lines = ALONG_K ? outers : depth, length = ALONG_K ? depth : outers;
        const int left = lesser(COUNT, length - first > 0 ? length - first : 0);  // elements of this thread's runs
#pragma unroll
        for (int share = 0; share < SHARE; ++share) {
            if (LINES < DOWN && line >= LINES) break;
            const int its_line = line + share * DOWN;
            const Element* run = from + share * DOWN * ld;
            Accumulator* to = tile + (ALONG_K ? first * ROW + its_line : its_line * ROW + first);
            const int taken = its_line < lines ? left : 0;
            if (!GUARDED) {
                copy_async<COUNT * sizeof(Element)>(to, run, true);
            } else if (aligned) {
                copy_part_async<COUNT * sizeof(Element)>(to, run, taken * sizeof(Element));
            } else {
#pragma unroll
                for (int i = 0; i < COUNT; ++i)
                    copy_async<sizeof(Element)>(to + i, run + i, i < taken);
            }
        }
        from += ALONG_K ? BLOCK_K : BLOCK_K * ld;
    }
};

using CourierA = Courier<BLOCK_M, A_ALONG_K>;
using CourierB = Courier<BLOCK_N, B_ALONG_K>;
constexpr int PAIR = CourierA::WORDS + CourierB::WORDS;  // accumulators of one tile of A and one of B
constexpr int BLOCKS = blocks_per_multiprocessor(THREADS, THREAD_M* THREAD_N, 2 * (THREAD_M + THREAD_N) + 8);

// The tiles of one product, of a block and a thread in it.
struct Pipeline {
    CourierA courier_a;
    CourierB courier_b;
    const ThreadTile& place;
    Accumulator* const first;  // of STAGES pairs of tiles
    Accumulator* present;      // the pair to multiply
    Accumulator* vacant;       // the pair to fill: that of the tile before
    Index left;                // of k, not yet on its way
    Fragments fragments[2];
    Sums sums;

    __device__ __forceinline__ Pipeline(const CourierA& courier_a, const CourierB& courier_b, const ThreadTile& place,
                                        Accumulator* tiles, Index k)
        : courier_a(courier_a),
          courier_b(courier_b),
          place(place),
          first(tiles),
          present(tiles),
          vacant(tiles + (STAGES - 1) * PAIR),
          left(k) {}

    // Starts the copies of the next pair. Commits an empty group too, so that the number of groups is that of tiles.
    template <bool INTERIOR>
    __device__ __forceinline__ void copy(Accumulator* pair) {
        if (INTERIOR || left > 0) {
            courier_a.template copy<!INTERIOR>(pair, left);
            courier_b.template copy<!INTERIOR>(pair + CourierA::WORDS, left);
        }
        commit_copies();
        left -= BLOCK_K;
    }

    __device__ __forceinline__ void read(int step) {
        fragments[step % 2].read(present + step % BLOCK_K * CourierA::ROW,
                                 present + CourierA::WORDS + step % BLOCK_K * CourierB::ROW, place);
    }

    __device__ __forceinline__ void await_next() {
        wait_copies<STAGES - 2>();
        __syncthreads();
    }

    // Multiplies the present pair and reads the first step of the next, which is garbage after the last. In the
    // interior this code has no branch, so the compiler is free to interleave copies and reads with the multiply-adds.
    template <bool INTERIOR>
    __device__ __forceinline__ void multiply() {
        copy<INTERIOR>(vacant);
#pragma unroll
        for (int step = 0; step < BLOCK_K; ++step) {
            if (step == BLOCK_K - 1) {
                vacant = present;
                present = present == first + (STAGES - 1) * PAIR ? first : present + PAIR;
                await_next();
            }
            read(step + 1);
            sums.add(fragments[step % 2]);
        }
    }

    // All `k` steps. Ends with every tile vacant, for the next product.
    __device__ __forceinline__ void run(Index k, bool interior) {
        for (int stage = 0; stage < STAGES - 1; ++stage)
            copy<false>(first + stage * PAIR);
        await_next();
        read(0);
        Index depth = 0;
        if (interior)
            for (; left >= BLOCK_K; depth += BLOCK_K)
                multiply<true>();
        for (; depth < k; depth += BLOCK_K)
            multiply<false>();
        wait_copies<0>();
        __syncthreads();
    }
};
