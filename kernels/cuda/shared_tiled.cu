// Square tiles of both operands staged in shared memory.
//
// A block computes one TILE×TILE tile of C with a thread per element. Along k it copies a tile of A and one of B into
// shared memory, and each thread sums from there: an element is fetched once per tile instead of once per thread, so
// traffic to L2 and memory falls by TILE.
#include "common.cuh"

static_assert(TILE == 8 || TILE == 16 || TILE == 32, "TILE is 8, 16 or 32: whole warps, and at most 1024 threads");

// A transposed operand is copied along its stored rows, so that loads coalesce, and turned on the way: a warp then
// writes down a column of the shared tile. Rows this much longer put the words of such a write into different banks
// (32 banks of 4 bytes; 8-byte words go by half warps). A tile that is not turned has no conflicts as it is.
constexpr int BANK_WORDS = 128 / sizeof(Accumulator);
constexpr int PAD = BANK_WORDS > TILE ? BANK_WORDS / TILE : 1;

template <bool TRANSPOSED>
using SharedTile = Accumulator[TILE][TRANSPOSED ? TILE + PAD : TILE];

// Copies one tile; `rows`×`columns` elements from its corner on lie inside the operand, as the product sees it.
template <bool TRANSPOSED, bool GUARDED>
__device__ __forceinline__ void stage(SharedTile<TRANSPOSED>& shared, const Element* corner, Index ld, Index rows,
                                      Index columns) {
    // (y, x) walks the operand as it is stored, x along memory; (row, column) is the place in the product's view.
    const int y = threadIdx.y, x = threadIdx.x;
    const int row = TRANSPOSED ? x : y, column = TRANSPOSED ? y : x;
    // What lies outside is zero in A and in B alike: 0·0 adds nothing, where 0 against an infinity would make a NaN.
    const bool inside = !GUARDED || (row < rows && column < columns);
    shared[row][column] = inside ? widen(corner[y * ld + x]) : Accumulator(0);
}

template <bool GUARDED>
__device__ __forceinline__ void step(SharedTile<TRANSPOSE_A>& tile_a, SharedTile<TRANSPOSE_B>& tile_b,
                                     const Element* corner_a, const Element* corner_b, Index lda, Index ldb, Index rows,
                                     Index columns, Index depth, Accumulator& sum) {
    stage<TRANSPOSE_A, GUARDED>(tile_a, corner_a, lda, rows, depth);
    stage<TRANSPOSE_B, GUARDED>(tile_b, corner_b, ldb, depth, columns);
    __syncthreads();
#pragma unroll
    for (int inner = 0; inner < TILE; ++inner)
        sum = multiply_add(tile_a[threadIdx.y][inner], tile_b[inner][threadIdx.x], sum);
    __syncthreads();  // nobody overwrites the tiles while others still read them
}

extern "C" __global__ void __launch_bounds__(TILE* TILE)
    shared_tiled(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m,
                 Index n, Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c,
                 Index batch) {
    __shared__ SharedTile<TRANSPOSE_A> tile_a;
    __shared__ SharedTile<TRANSPOSE_B> tile_b;
    const Tile tile = tile_of_block(n, TILE, TILE);
    const Index rows = m - tile.row, columns = n - tile.column;
    const bool interior = rows >= TILE && columns >= TILE;
    const Index whole = interior ? k - k % TILE : 0;  // up to here no element needs a guard

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Element* corner_a = a + item * stride_a + tile.row * row_step_a(lda);
        const Element* corner_b = b + item * stride_b + tile.column * column_step_b(ldb);
        Accumulator sum = 0;
        for (Index depth = 0; depth < k; depth += TILE) {
            if (depth < whole)
                step<false>(tile_a, tile_b, corner_a, corner_b, lda, ldb, rows, columns, k - depth, sum);
            else
                step<true>(tile_a, tile_b, corner_a, corner_b, lda, ldb, rows, columns, k - depth, sum);
            corner_a += TILE * column_step_a(lda);
            corner_b += TILE * row_step_b(ldb);
        }
        if (threadIdx.y < rows && threadIdx.x < columns)
            c[item * stride_c + (tile.row + threadIdx.y) * ldc + tile.column + threadIdx.x] = narrow(sum);
    }
}
