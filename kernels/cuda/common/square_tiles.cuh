// Square tiles of the operands in shared memory, TILE×TILE, and a block of as many threads that fills them: one element
// of a tile for each thread.
#pragma once
#include "common.cuh"

static_assert(TILE == 8 || TILE == 16 || TILE == 32, "TILE is 8, 16 or 32: whole warps, and at most 1024 threads");

// A transposed operand is read along its stored rows, so that loads coalesce, and transposed when stored: a warp then
// writes a column of the shared tile. This padding of rows puts the words of such a write into different banks (32
// banks of 4 bytes; 8-byte words are written by half warps). A tile that is not transposed has no conflicts anyway.
constexpr int BANK_WORDS = 128 / sizeof(Accumulator);
constexpr int PADDING = BANK_WORDS > TILE ? BANK_WORDS / TILE : 1;

// The size includes the padding in any case, so that it does not depend on the layout of the operands.
template <bool LONG_ROWS>
struct alignas(16) SquareTile {
    static constexpr int ROW = LONG_ROWS ? TILE + PADDING : TILE;
    Accumulator room[TILE * (TILE + PADDING)];

    __device__ __forceinline__ Accumulator& at(int row, int column) { return room[row * ROW + column]; }
};

// This thread's element of the tile whose first element is `corner`, of which `rows`×`columns` lie inside the operand.
// Tiles are counted as the product sees the operand; threads walk it as it is stored, x along memory.
template <bool TRANSPOSED, bool GUARDED>
__device__ __forceinline__ Element fetch(const Element* corner, Index ld, Index rows, Index columns) {
    const int y = threadIdx.y, x = threadIdx.x;
    const bool inside = !GUARDED || (TRANSPOSED ? x < rows && y < columns : y < rows && x < columns);
    // Elements outside are zero in both A and B: 0·0 adds nothing, whereas 0 times an infinity would give a NaN.
    return inside ? corner[y * ld + x] : Element(0);
}

// Stores the element that `fetch` returned.
template <bool TRANSPOSED, bool LONG_ROWS>
__device__ __forceinline__ void put(SquareTile<LONG_ROWS>& tile, Element element) {
    static_assert(LONG_ROWS || !TRANSPOSED, "a tile that is transposed on its way in needs the longer rows");
    const int row = TRANSPOSED ? threadIdx.x : threadIdx.y, column = TRANSPOSED ? threadIdx.y : threadIdx.x;
    tile.at(row, column) = widen(element);
}
