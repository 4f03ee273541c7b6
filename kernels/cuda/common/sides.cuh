// Stages of both operands in shared memory, in the layout of global memory, and which part of them each thread
// multiplies: for kernels with BLOCK_ and THREAD_ sizes and SLICES.
//
// tiles.cuh transposes a K-major operand when it stores it, one element at a time. Here copies are 16 bytes wide in
// either layout, and threads read runs of GROUP elements: rows or columns of one step, or steps of one row or column.
#pragma once
#include "async.cuh"
#include "tiles.cuh"

constexpr int SLICE = BLOCK_M / THREAD_M * (BLOCK_N / THREAD_N);  // threads that share a part of each stage's steps
constexpr int THREADS = SLICE * SLICES;
static_assert(sizeof(Element) >= 4, "an asynchronous copy moves at least 4 bytes, so elements must have as many");
static_assert(sizeof(Element) == sizeof(Accumulator), "stages hold elements as they are stored");
static_assert(BLOCK_M % THREAD_M == 0 && BLOCK_N % THREAD_N == 0,
              "the block's tile is a whole number of threads' tiles");
static_assert(THREAD_M % GROUP == 0 && THREAD_N % GROUP == 0, "a thread's tile is a whole number of 16-byte groups");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block is whole warps, 32 at most");

// One operand's stages: rows of A or columns of B, OUTER of them, over BLOCK_K steps.
template <int OUTER, int THREAD_OUTER, bool ALONG_K>
struct Side {
    static constexpr int LINE = ALONG_K ? BLOCK_K : OUTER, LINES = ALONG_K ? OUTER : BLOCK_K;
    static constexpr int ACROSS = LINE / GROUP;  // runs in a line
    static constexpr int DOWN = THREADS / ACROSS;
    static constexpr int SHARE = (LINES + DOWN - 1) / DOWN;
    // If lines are along k, lanes read different lines: with an odd number of runs between them, eight use different
    // banks.
    static constexpr int PITCH = ALONG_K ? LINE + GROUP : LINE;
    static constexpr int WORDS = LINES * PITCH;
    static constexpr int PLACES = OUTER / THREAD_OUTER;  // of threads along this side of the tile
    static_assert(THREADS % ACROSS == 0, "each thread copies runs of the same place in their lines");

    const Element* from;  // this thread's first run of the next stage
    Index ld;
    int outers;       // how many of the tile's rows or columns lie in the operand
    int line, first;  // of that run within the stage
    int place;        // of this thread's part among PLACES
    bool aligned;

    __device__ __forceinline__ Side(Index ld, Index outers, int place, bool aligned)
        : from(nullptr),
          ld(ld),
          outers(outers < OUTER ? static_cast<int>(outers) : OUTER),
          line(threadIdx.x / ACROSS),
          first(threadIdx.x % ACROSS * GROUP),
          place(place),
          aligned(aligned) {}

    // `corner` is where the block's part of a matrix begins.
    __device__ __forceinline__ void begin(const Element* corner) { from = corner + line * ld + first; }

    // Starts to copy the next stage, of which `depth` steps lie in the operand; the others become zero.
    __device__ __forceinline__ void copy(Accumulator* stage, int depth) {
        const int lines = ALONG_K ? outers : depth, length = ALONG_K ? depth : outers;
        const int left = lesser(GROUP, length - first > 0 ? length - first : 0);  // elements of this thread's runs
#pragma unroll
        for (int share = 0; share < SHARE; ++share) {
            const int its_line = line + share * DOWN;
            if (LINES % DOWN != 0 && its_line >= LINES) break;
            const Element* run = from + share * DOWN * ld;
            Accumulator* to = stage + its_line * PITCH + first;
            const int taken = its_line < lines ? left : 0;
            if (aligned) {
                copy_part_async<RUN_BYTES>(to, run, taken * sizeof(Element));
            } else {
#pragma unroll
                for (int i = 0; i < GROUP; ++i)
                    copy_async<sizeof(Element)>(to + i, run + i, i < taken);
            }
        }
        from += ALONG_K ? BLOCK_K : BLOCK_K * ld;
    }

    // Index in the tile of a thread's i-th row or column: neighbours if runs are across k, else spread out.
    __device__ __forceinline__ int outer(int i) const {
        return ALONG_K ? place + i * PLACES : (place + i / GROUP * PLACES) * GROUP + i % GROUP;
    }

    // GROUP steps of this thread's rows or columns, from step `run` * GROUP of a stage on.
    __device__ __forceinline__ void read(Accumulator (&to)[GROUP][THREAD_OUTER], const Accumulator* stage,
                                         int run) const {
#pragma unroll
        for (int i = 0; i < THREAD_OUTER; i += ALONG_K ? 1 : GROUP)
#pragma unroll
            for (int step = 0; step < GROUP; step += ALONG_K ? GROUP : 1) {
                const int line = ALONG_K ? outer(i) : run * GROUP + step, at = ALONG_K ? run * GROUP : outer(i);
                Accumulator words[GROUP];
                read_run<GROUP>(words, stage + line * PITCH + at);
#pragma unroll
                for (int word = 0; word < GROUP; ++word)
                    to[ALONG_K ? word : step][ALONG_K ? i : i + word] = words[word];
            }
    }
};

// A thread's part of the tile. A warp covers a part that is as square as possible but at least eight threads wide, so
// that eight lanes read contiguous runs.
struct ThreadTile {
    static constexpr int DOWN = BLOCK_M / THREAD_M, ACROSS = BLOCK_N / THREAD_N;
    static constexpr int MIN_LANES = DOWN < 4 ? 32 / DOWN : 8, LANES_N = ACROSS < MIN_LANES ? ACROSS : MIN_LANES;
    static constexpr int LANES_M = 32 / LANES_N < DOWN ? 32 / LANES_N : DOWN, LANES = LANES_M * LANES_N;
    static_assert(ACROSS % LANES_N == 0 && DOWN % LANES_M == 0, "a slice is a whole number of lanes' rectangles");
    int slice, row, column;  // the latter among DOWN and ACROSS threads

    __device__ __forceinline__ ThreadTile() {
        const int within = threadIdx.x % SLICE, group = within / LANES, lane = within % LANES;
        slice = threadIdx.x / SLICE;
        row = group / (ACROSS / LANES_N) * LANES_M + lane / LANES_N;
        column = group % (ACROSS / LANES_N) * LANES_N + lane % LANES_N;
    }
};
