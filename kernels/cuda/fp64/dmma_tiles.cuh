// Tiles of float64 in shared memory: how they lie there, how lanes read slabs of them, and how threads copy them there.
//
// An operand of float64 is copied in pieces of 16 bytes where its rows begin at multiples of that, and of 8 where they
// do not: rows of any pitch go the same way, past all registers. What lies outside is written as zeros by the copy.
#pragma once
#include "async.cuh"
#include "dmma.cuh"
#include "tiles.cuh"

// The same number, but one that the compiler knows nothing about, and so keeps in a register. Of what it knows it works
// out parts anew between the instructions that multiply, or for all products of a batch in advance.
__device__ __forceinline__ int kept(int value) {
    asm volatile("" : "+r"(value));
    return value;
}

#ifndef EMULATED  // an emulation on the CPU brings its own function
// Copies BYTES (8 or 16), or does nothing: a predicate of the instruction, no branch among those that multiply.
template <int BYTES>
__device__ __forceinline__ void copy_async_if(bool asked, void* shared, const void* global) {
    const unsigned int address = static_cast<unsigned int>(__cvta_generic_to_shared(shared));
    const int flag = asked;
    if (BYTES == 16)
        asm volatile("{.reg .pred p; setp.ne.s32 p, %0, 0; @p cp.async.cg.shared.global [%1], [%2], 16;}" ::"r"(flag),
                     "r"(address), "l"(global));
    else
        asm volatile("{.reg .pred p; setp.ne.s32 p, %0, 0; @p cp.async.ca.shared.global [%1], [%2], 8;}" ::"r"(flag),
                     "r"(address), "l"(global));
}
#endif

// How a tile of one operand lies in shared memory: as in the operand, line by line. Padding keeps what lanes read
// together in different banks. Runs of 16 bytes are read by eight lanes: of lines along k four runs each of two lines,
// one left out between them, which so are 64 bytes apart; of lines across k two runs each of four, 32 bytes apart.
// Single elements along k are read by sixteen lanes, four next to each other of four lines, 32 bytes apart.
template <int OUTER, bool ALONG_K>
struct Layout {
    static constexpr int LINE = ALONG_K ? BLOCK_K : OUTER, LINES = ALONG_K ? OUTER : BLOCK_K;
    static constexpr int ROW = LINE + (ALONG_K && STEPS_IN_PAIRS ? 4 : 2);
    static constexpr int ELEMENTS = LINES * ROW;
    static_assert(LINE % 16 == 0, "lines begin in the same bank, but for the padding");

    __device__ __forceinline__ static constexpr int place(int outer, int step) {
        return ALONG_K ? outer * ROW + step : step * ROW + outer;
    }

    // Where the lane's part of the slab lies that begins `outer` rows or columns into the tile, at its first step.
    __device__ __forceinline__ static int place_of_lane(int outer) {
        return place(outer + threadIdx.x % 32 / 4 * 2, step_of(0));
    }

    // The lane's part of the slab that begins `outer` rows or columns and `depth` steps on from the one at `first`.
    __device__ __forceinline__ static void read(Slab& slab, const double* first, int outer, int depth) {
#pragma unroll
        for (int slot = 0; slot < SLOTS; slot += STEPS_IN_PAIRS ? 2 : 1) {
            const int step = depth + slot * 4;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                double run[2];
                if (!STEPS_IN_PAIRS) {
                    slab.at[i][slot] = first[place(outer + i, step)];
                } else if (ALONG_K) {
                    read_run<2>(run, first + place(outer + i, step));
                    slab.at[i][slot] = run[0];
                    slab.at[i][slot + 1] = run[1];
                } else {
                    read_run<2>(run, first + place(outer, step + i));
                    slab.at[0][slot + i] = run[0];
                    slab.at[1][slot + i] = run[1];
                }
            }
        }
    }
};

// Copies tiles of one operand, COUNT elements at a time: the last of k first, which may be shorter than the others, and
// then those from the first on. `corner` is where the block's rows (of A) or columns (of B) begin; `outers` of them lie
// in the operand, all of the tile's where it is not GUARDED.
template <int OUTER, bool ALONG_K, int COUNT, bool GUARDED, int THREADS>
struct Courier {
    using Tile = Layout<OUTER, ALONG_K>;
    static constexpr int ACROSS = Tile::LINE / COUNT, DOWN = THREADS / ACROSS;
    static constexpr int SHARES = Tile::LINES / DOWN;  // runs of each tile that a thread copies
    static constexpr int BYTES = COUNT * sizeof(double);
    static_assert(THREADS % ACROSS == 0, "each thread copies runs of the same place in their lines");
    static_assert(Tile::LINES % DOWN == 0, "each thread copies as many runs as every other");

    const double* from;  // this thread's first run of the next tile
    Index down;          // from one of its runs to the next
    int line, first;     // of its first run within a tile,
    int place;           // and where that lies in shared memory
    int outers, room;    // within the tile, and of them from its first line, or its place in a line, on

    __device__ __forceinline__ Courier(const double* corner, Index ld, int outers)
        : down(DOWN * ld),
          line(kept(threadIdx.x / ACROSS)),
          first(kept(threadIdx.x % ACROSS * COUNT)),
          place(kept(line * Tile::ROW + first)),
          outers(outers),
          room(outers - (ALONG_K ? line : first)) {
        from = corner + line * ld + first;
    }

    // How many elements of a share lie in the operand, of a tile `depth` of whose steps do.
    __device__ __forceinline__ int taken(int share, int depth) const {
        const int lines = ALONG_K ? outers : depth, left = (ALONG_K ? depth : outers) - first;
        return line + share * DOWN >= lines || left < 0 ? 0 : lesser(COUNT, left);
    }

    // Starts to copy the last tile: `depth` steps, `before` elements on. What lies outside becomes zero: 0 against an
    // infinity of the other operand would make a NaN.
    __device__ __forceinline__ void copy_last(double* tile, Index before, int depth) const {
#pragma unroll
        for (int share = 0; share < SHARES; ++share) {
            double* const to = tile + place + share * DOWN * Tile::ROW;
            copy_part_async<BYTES>(to, from + before + share * down, taken(share, depth) * sizeof(double));
        }
    }

    // Starts to copy a share of the next tile, if asked to; the last comes last. What lies beside the operand is left
    // as it is in shared memory: products with it go into no sums but those that lie beside C.
    __device__ __forceinline__ void copy(bool asked, double* tile, int share) {
        double* const to = tile + place + share * DOWN * Tile::ROW;
        const double* const run = from + share * down;
        copy_async_if<BYTES>(asked && (!GUARDED || room > (ALONG_K ? share * DOWN : COUNT - 1)), to, run);
        if (GUARDED && !ALONG_K && COUNT == 2) copy_async_if<sizeof(double)>(asked && room == 1, to, run);
        if (share == SHARES - 1) from += ALONG_K ? BLOCK_K : SHARES * down;
    }

    // Leaves out so many of the next tiles.
    __device__ __forceinline__ void skip(int tiles) { from += tiles * (ALONG_K ? BLOCK_K : SHARES * down); }
};
