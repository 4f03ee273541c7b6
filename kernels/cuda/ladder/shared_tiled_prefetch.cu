// Square tiles in shared memory; the next tiles are already on their way while the present ones are computed with.
//
// Each thread loads its two elements of the next tiles into registers right after the barrier, sums over the present
// tiles, and only then puts the two into shared memory: memory works while the block computes, where `shared_tiled`
// waits for it at every step. Four accumulators, added up at the end, make four short chains of additions out of one.
//
// PADDED=1 lengthens the rows of every tile, PADDED=0 only of those that are transposed on their way in. No other
// access has bank conflicts to avoid, and rows of plain length let a thread read four elements of A at once.
#include "square_tiles.cuh"

static_assert(PADDED == 0 || PADDED == 1, "PADDED is 0 (rows of transposed tiles alone are longer) or 1 (rows of all)");

constexpr int SUMS = 4;

struct Pair {
    Element a, b;
};

// This thread's elements of the tiles at the two corners, of which `depth` steps of k lie inside: none past the end.
template <bool GUARDED>
__device__ __forceinline__ Pair fetch_pair(const Element* corner_a, const Element* corner_b, Index lda, Index ldb,
                                           Index rows, Index columns, Index depth) {
    return {fetch<TRANSPOSE_A, GUARDED>(corner_a, lda, rows, depth),
            fetch<TRANSPOSE_B, GUARDED>(corner_b, ldb, depth, columns)};
}

extern "C" __global__ void __launch_bounds__(TILE* TILE)
    shared_tiled_prefetch(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c,
                          Index m, Index n, Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b,
                          Index stride_c, Index batch) {
    __shared__ SquareTile<PADDED || TRANSPOSE_A> tile_a;
    __shared__ SquareTile<PADDED || TRANSPOSE_B> tile_b;
    const Tile tile = tile_of_block(n, TILE, TILE);
    const Index rows = m - tile.row, columns = n - tile.column;
    const bool interior = rows >= TILE && columns >= TILE;
    const Index whole = interior ? k - k % TILE : 0;  // up to here no element needs a guard

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Element* corner_a = a + item * stride_a + tile.row * row_step_a(lda);
        const Element* corner_b = b + item * stride_b + tile.column * column_step_b(ldb);
        Accumulator sums[SUMS] = {};
        Pair next = fetch_pair<true>(corner_a, corner_b, lda, ldb, rows, columns, k);
        for (Index depth = 0; depth < k; depth += TILE) {
            put<TRANSPOSE_A>(tile_a, next.a);
            put<TRANSPOSE_B>(tile_b, next.b);
            __syncthreads();
            corner_a += TILE * column_step_a(lda);
            corner_b += TILE * row_step_b(ldb);
            if (depth + TILE < whole)
                next = fetch_pair<false>(corner_a, corner_b, lda, ldb, rows, columns, k - depth - TILE);
            else
                next = fetch_pair<true>(corner_a, corner_b, lda, ldb, rows, columns, k - depth - TILE);
#pragma unroll 8  // a tile in one piece would read ahead more than registers hold
            for (int inner = 0; inner < TILE; ++inner)
                sums[inner % SUMS] =
                    multiply_add(tile_a.at(threadIdx.y, inner), tile_b.at(inner, threadIdx.x), sums[inner % SUMS]);
            __syncthreads();  // nobody overwrites the tiles while others still read them
        }
        if (threadIdx.y < rows && threadIdx.x < columns)
            c[item * stride_c + (tile.row + threadIdx.y) * ldc + tile.column + threadIdx.x] =
                narrow((sums[0] + sums[1]) + (sums[2] + sums[3]));
    }
}
