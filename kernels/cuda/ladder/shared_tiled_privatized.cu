// One shared tile of A serves THREAD_N tiles of C side by side, whose sums each thread keeps in registers of its own.
//
// A block computes a TILE × TILE·THREAD_N part of C with TILE×TILE threads. Each step along k brings one tile of A and
// the THREAD_N tiles of B beside each other, between one pair of barriers. An element of A, once read from shared
// memory, meets THREAD_N elements of B, and A is fetched from memory THREAD_N times less often.
#include "square_tiles.cuh"

static_assert(THREAD_N >= 1, "a thread has at least one element of C");

template <bool GUARDED>
__device__ __forceinline__ void step(SquareTile<TRANSPOSE_A>& tile_a, SquareTile<TRANSPOSE_B> (&tiles_b)[THREAD_N],
                                     const Element* corner_a, const Element* corner_b, Index lda, Index ldb, Index rows,
                                     Index columns, Index depth, Accumulator (&sums)[THREAD_N]) {
    put<TRANSPOSE_A>(tile_a, fetch<TRANSPOSE_A, GUARDED>(corner_a, lda, rows, depth));
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
        const Element* corner = corner_b + j * TILE * column_step_b(ldb);
        put<TRANSPOSE_B>(tiles_b[j], fetch<TRANSPOSE_B, GUARDED>(corner, ldb, depth, columns - j * TILE));
    }
    __syncthreads();
#pragma unroll 8  // a tile in one piece would read ahead more than registers hold
    for (int inner = 0; inner < TILE; ++inner) {
        const Accumulator from_a = tile_a.at(threadIdx.y, inner);
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j)
            sums[j] = multiply_add(from_a, tiles_b[j].at(inner, threadIdx.x), sums[j]);
    }
    __syncthreads();  // nobody overwrites the tiles while others still read them
}

extern "C" __global__ void __launch_bounds__(TILE* TILE)
    shared_tiled_privatized(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c,
                            Index m, Index n, Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b,
                            Index stride_c, Index batch) {
    __shared__ SquareTile<TRANSPOSE_A> tile_a;
    __shared__ SquareTile<TRANSPOSE_B> tiles_b[THREAD_N];
    const Tile tile = tile_of_block(n, TILE, TILE * THREAD_N);
    const Index rows = m - tile.row, columns = n - tile.column;
    const bool interior = rows >= TILE && columns >= TILE * THREAD_N;
    const Index whole = interior ? k - k % TILE : 0;  // up to here no element needs a guard

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Element* corner_a = a + item * stride_a + tile.row * row_step_a(lda);
        const Element* corner_b = b + item * stride_b + tile.column * column_step_b(ldb);
        Accumulator sums[THREAD_N] = {};
        for (Index depth = 0; depth < k; depth += TILE) {
            if (depth < whole)
                step<false>(tile_a, tiles_b, corner_a, corner_b, lda, ldb, rows, columns, k - depth, sums);
            else
                step<true>(tile_a, tiles_b, corner_a, corner_b, lda, ldb, rows, columns, k - depth, sums);
            corner_a += TILE * column_step_a(lda);
            corner_b += TILE * row_step_b(ldb);
        }
        Product* const to = c + item * stride_c + (tile.row + threadIdx.y) * ldc + tile.column;
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) {
            const int column = threadIdx.x + j * TILE;
            if (threadIdx.y < rows && column < columns) to[column] = narrow(sums[j]);
        }
    }
}
