// How a block brings tiles of its operands into shared memory, and how a thread reads and writes runs of elements.
//
// A tile in shared memory is DEPTH rows, one for each step of k, of OUTER elements: rows of A or columns of B. Both
// operands therefore have the same form, and the same code serves both, stored or transposed. Only the axis that is
// contiguous in memory differs. If it is k (A, or B transposed), a run of consecutive elements is transposed when
// stored.
#pragma once
#include "common.cuh"

constexpr bool A_ALONG_K = !TRANSPOSE_A;
constexpr bool B_ALONG_K = TRANSPOSE_B;

// The registers of a thread besides its sums, in accumulators, for blocks_per_multiprocessor: a step's operands and the
// elements being loaded. Types that are converted, or are two registers wide, need registers for both forms.
__device__ constexpr int words_beside(int operands, int held) {
    return operands + held - 16 + (sizeof(Element) == 4 ? 0 : 48);
}

// A run of elements that one instruction moves.
template <typename Value, int COUNT>
struct alignas(sizeof(Value) * COUNT) Run {
    Value at[COUNT];
};

constexpr int RUN_BYTES = 16;                           // the widest load and store
constexpr int GROUP = RUN_BYTES / sizeof(Accumulator);  // accumulators in a run
__device__ constexpr int lesser(int a, int b) { return a < b ? a : b; }

// Whether runs of COUNT elements may be moved at once: rows begin at multiples of them.
template <int COUNT, typename Value>
__device__ __forceinline__ bool is_aligned(const Value* matrix, Index ld, Index stride) {
    return reinterpret_cast<unsigned long long>(matrix) % (sizeof(Value) * COUNT) == 0 && ld % COUNT == 0 &&
           stride % COUNT == 0;
}

// Padding of rows in shared memory, so that a run that is transposed when stored uses different banks: neighbouring
// lanes write COUNT rows apart. A multiple of GROUP keeps the start of every row aligned.
constexpr int TILE_PADDING = GROUP;

// Loads tiles of one operand, one BLOCK_K after the other: fetches them into registers, then stores them in shared
// memory. `corner` is where the block's rows (of A) or columns (of B) begin; `outers` of them lie in the operand. All
// THREADS take part.
template <int OUTER, int DEPTH, int THREADS, bool ALONG_K>
struct TileLoader {
    static constexpr int LINE = ALONG_K ? DEPTH : OUTER;  // elements of the tile that lie together in memory
    static constexpr int LINES = ALONG_K ? OUTER : DEPTH;
    static constexpr int COUNT = lesser(RUN_BYTES / sizeof(Element), LINE);
    static constexpr int ACROSS = LINE / COUNT;  // runs in a line
    static constexpr int RUNS = ACROSS * LINES;  // and in the tile
    static constexpr int SHARE = (RUNS + THREADS - 1) / THREADS;
    static constexpr int ROW = OUTER + TILE_PADDING;  // from one k to the next in shared memory
    static constexpr int WORDS = DEPTH * ROW;         // accumulators of a tile there
    static_assert(LINE % COUNT == 0, "a tile's side along memory must be a whole number of 16-byte runs");
    static_assert(THREADS % ACROSS == 0 && LINES * ACROSS % lesser(THREADS, RUNS) == 0,
                  "each thread carries runs of the same place in their lines");

    const Element* from;  // this thread's first run of the next tile
    Index ld;
    int outers;       // how many of the tile's rows or columns lie in the operand
    int line, first;  // of that run within the tile
    bool aligned;
    Run<Element, COUNT> held[SHARE];

    __device__ __forceinline__ TileLoader(const Element* corner, Index ld, Index outers, int thread, bool aligned)
        : from(corner + thread / ACROSS * ld + thread % ACROSS * COUNT),
          ld(ld),
          outers(outers < OUTER ? static_cast<int>(outers) : OUTER),
          line(thread / ACROSS),
          first(thread % ACROSS * COUNT),
          aligned(aligned) {}

    // Fetches the next tile, of which `depths` steps lie in the operand. Elements outside become zero in both operands,
    // because 0 times an infinity of the other operand would give a NaN.
    template <bool GUARDED>
    __device__ __forceinline__ void fetch(Index depths) {
        const int depth = depths < DEPTH ? static_cast<int>(depths) : DEPTH;
        const int lines = ALONG_K ? outers : depth, length = ALONG_K ? depth : outers;
#pragma unroll
        for (int share = 0; share < SHARE; ++share) {
            if (RUNS < THREADS && line >= LINES) break;
            const Element* run = from + share * (THREADS / ACROSS) * ld;
            const bool inside = line + share * (THREADS / ACROSS) < lines;
            if (!GUARDED || (aligned && inside && first + COUNT <= length)) {
                held[share] = *reinterpret_cast<const Run<Element, COUNT>*>(run);
            } else {
#pragma unroll
                for (int i = 0; i < COUNT; ++i)
                    held[share].at[i] = inside && first + i < length ? run[i] : Element(0);
            }
        }
        from += ALONG_K ? DEPTH : DEPTH * ld;
    }

    __device__ __forceinline__ void put(Accumulator* tile) const {
#pragma unroll
        for (int share = 0; share < SHARE; ++share) {
            if (RUNS < THREADS && line >= LINES) break;
            const int its_line = line + share * (THREADS / ACROSS);
#pragma unroll
            for (int i = 0; i < COUNT; ++i)
                tile[ALONG_K ? (first + i) * ROW + its_line : its_line * ROW + first + i] = widen(held[share].at[i]);
        }
    }
};

// Reads COUNT contiguous, aligned accumulators from shared memory.
template <int COUNT>
__device__ __forceinline__ void read_run(Accumulator* to, const Accumulator* from) {
    const Run<Accumulator, COUNT> run = *reinterpret_cast<const Run<Accumulator, COUNT>*>(from);
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
        to[i] = run.at[i];
}

// Writes COUNT elements of a row of C, of which `left` lie in it.
template <int COUNT>
__device__ __forceinline__ void write_run(Product* to, const Accumulator* sums, Index left, bool aligned) {
    if (aligned && left >= COUNT) {
        Run<Product, COUNT> run;
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            run.at[i] = narrow(sums[i]);
        *reinterpret_cast<Run<Product, COUNT>*>(to) = run;
    } else {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            if (i < left) to[i] = narrow(sums[i]);
    }
}
