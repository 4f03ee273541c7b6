// Tensor cores for float64: each warp multiplies slabs of 16 rows by slabs of 16 columns, out of tiles that
// asynchronous copies bring into shared memory.
//
// Parameters: BLOCK_M, BLOCK_N, BLOCK_K, WARP_M, WARP_N, STEP, AHEAD, STAGES, RESIDENT.
#include "dependent_launch.cuh"
#include "dmma_pipeline.cuh"
#include "gate.cuh"
#if RESIDENT
#include "dmma_work.cuh"
#endif

// Blocks next to each other take tiles of eight rows of tiles, column by column: they share more than those of a row.
struct TileNumber {
    int down, across;

    __device__ __forceinline__ TileNumber(Index m, Index n) {
        constexpr int ROWS = 8;
        const Index tiles_down = (m + BLOCK_M - 1) / BLOCK_M, tiles_across = (n + BLOCK_N - 1) / BLOCK_N;
        const Index first = blockIdx.x / (ROWS * tiles_across) * ROWS, within = blockIdx.x % (ROWS * tiles_across);
        const Index rows = tiles_down - first < ROWS ? tiles_down - first : ROWS;
        down = static_cast<int>(first + within % rows);
        across = static_cast<int>(within / rows);
    }
};

struct MultiplyTile {
    WarpProduct& warp;
    const Part& part;
    const Operands& of;
    double* tiles;

    template <typename InWay>
    __device__ __forceinline__ void operator()(InWay way) const {
        auto couriers = way.couriers(part, of);
        way.begin(couriers, of, tiles);
        way.multiply(warp, couriers, part, of.tiles(), tiles);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    tensor_fp64(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
                Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch,
                double2* workspace GATE) {
    if (GATE_IS_CLOSED) return;
    launch_dependents();
    DYNAMIC_SHARED(shared);
    double* const tiles = reinterpret_cast<double*>(shared);
#if RESIDENT
    Notes& notes = *reinterpret_cast<Notes*>(tiles + STAGES * PAIR);
    const bool aligned = is_aligned<2>(a, lda, stride_a) && is_aligned<2>(b, ldb, stride_b);
    const Matrices matrices = {a, b, c, m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c, aligned};
    go_through_turns(matrices, batch, tiles, notes, workspace);
#else
    const TileNumber tile(m, n);
    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Part part(tile.down, tile.across, m, n);
        const Operands of = {a + item * stride_a + part.row * row_step_a(lda),
                             b + item * stride_b + part.column * column_step_b(ldb), k, lda, ldb};
        const bool aligned = is_aligned<2>(a, lda, stride_a) && is_aligned<2>(b, ldb, stride_b);
        WarpProduct warp(part.warp_row, part.warp_column);
        in_its_way(aligned, part.whole(), MultiplyTile{warp, part, of, tiles});
        const Part again(tile.down, tile.across, m, n);
        const int row = again.warp_row, column = again.warp_column;
        double* const corner = c + item * stride_c + (again.row + row) * ldc + again.column + column;
        warp.write(corner, ldc, again.rows - row, again.columns - column, is_aligned<2>(c, ldc, stride_c));
    }
#endif
}
