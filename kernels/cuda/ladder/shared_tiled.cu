// Square tiles of both operands staged in shared memory.
//
// A block computes one TILE×TILE tile of C with a thread per element. Along k it copies a tile of A and one of B into
// shared memory, and each thread sums from there: an element is fetched once per tile instead of once per thread, so
// traffic to L2 and memory falls by TILE.
#include "square_tiles.cuh"

template <bool GUARDED>
__device__ __forceinline__ void step(SquareTile<TRANSPOSE_A>& tile_a, SquareTile<TRANSPOSE_B>& tile_b,
                                     const Element* corner_a, const Element* corner_b, Index lda, Index ldb, Index rows,
                                     Index columns, Index depth, Accumulator& sum) {
    put<TRANSPOSE_A>(tile_a, fetch<TRANSPOSE_A, GUARDED>(corner_a, lda, rows, depth));
    put<TRANSPOSE_B>(tile_b, fetch<TRANSPOSE_B, GUARDED>(corner_b, ldb, depth, columns));
    __syncthreads();
#pragma unroll
    for (int inner = 0; inner < TILE; ++inner)
        sum = multiply_add(tile_a.at(threadIdx.y, inner), tile_b.at(inner, threadIdx.x), sum);
    __syncthreads();  // nobody overwrites the tiles while others still read them
}

extern "C" __global__ void __launch_bounds__(TILE* TILE)
    shared_tiled(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m,
                 Index n, Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c,
                 Index batch) {
    __shared__ SquareTile<TRANSPOSE_A> tile_a;
    __shared__ SquareTile<TRANSPOSE_B> tile_b;
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
