// Strassen's product, one level: seven products of halves in place of eight, each made as `pipelined` makes them.
//
// `strassen_sums` writes sums of quarters. The kernel itself has a block for every tile of each of the seven products,
// and the last of a tile's seven blocks puts the quarters of C together: strassen_layout.cuh says of what. Errors are
// in proportion to the largest rows and columns, not to each element's own.
//
// A matrix with an infinity or a NaN, or so large that sums might overflow, is multiplied by quarters in the ordinary
// way, for which four of the seven blocks are enough. So is, whole, a product that is launched with no more layers of
// the grid than there are products in the batch: the launch says by seven layers each that the sums were written.
#include "pipeline.cuh"
#include "strassen_sums.cuh"

// An operand of one product of halves, or of the whole.
struct Factor {
    const Element* first;
    Index ld, outers, depths;  // rows of A or columns of B, and steps of k, that lie in it
    bool aligned;
};

// A product that a block makes a tile of.
struct Job {
    Factor a, b;
    Product* c;
    Index ldc, rows, columns;
    bool aligned;
};

// Of all matrices of one product of the batch.
struct Matrices {
    Factor a, b;
    Product* c;
    Index ldc;
    bool aligned_c;

    // A's upper or lower half of rows (0, 1), and first or second of k.
    __device__ __forceinline__ Factor quarter_a(int row, int column, const Halves& half) const {
        const Index outer = row * half.m, depth = column * half.k;
        return {a.first + outer * row_step_a(a.ld) + depth * column_step_a(a.ld), a.ld,
                row ? a.outers - half.m : half.m, column ? a.depths - half.k : half.k, a.aligned};
    }
    __device__ __forceinline__ Factor quarter_b(int row, int column, const Halves& half) const {
        const Index outer = column * half.n, depth = row * half.k;
        return {b.first + outer * column_step_b(b.ld) + depth * row_step_b(b.ld), b.ld,
                column ? b.outers - half.n : half.n, row ? b.depths - half.k : half.k, b.aligned};
    }
};

// Operands of M1 to M7, counted from 0: sums in the order in which they were written, and quarters.
__device__ __forceinline__ Factor left_of(int product, const Matrices& of, const Halves& half, Index item) {
    if (product == 2 || product == 3) return of.quarter_a(product - 2, product - 2, half);
    const Index sum = item * QUARTER_SUMS + (product < 2 ? product : product - 2);
    return {half.sums_a + sum * half.m * half.k, TRANSPOSE_A ? half.m : half.k, half.m, half.k, true};
}
__device__ __forceinline__ Factor right_of(int product, const Matrices& of, const Halves& half, Index item) {
    if (product == 1 || product == 4) return of.quarter_b(product / 4, product / 4, half);
    const Index sum = item * QUARTER_SUMS + product - (product > 1) - (product > 4);
    return {half.sums_b + sum * half.k * half.n, TRANSPOSE_B ? half.k : half.n, half.n, half.k, true};
}

__device__ __forceinline__ void multiply(const Job& job, const Tile& tile, Accumulator* tiles,
                                         const ThreadTile& place) {
    const Factor &a = job.a, &b = job.b;
    const Index outers_a = a.outers - tile.row, outers_b = b.outers - tile.column;
    const Index depths = a.depths < b.depths ? a.depths : b.depths;  // beyond them one operand is zero
    const bool interior = outers_a >= BLOCK_M && outers_b >= BLOCK_N && a.aligned && b.aligned;
    const CourierA courier_a(a.first + tile.row * row_step_a(a.ld), a.ld, outers_a, a.aligned);
    const CourierB courier_b(b.first + tile.column * column_step_b(b.ld), b.ld, outers_b, b.aligned);
    Pipeline pipeline(courier_a, courier_b, place, tiles, depths);
    pipeline.run(depths, interior);
    pipeline.sums.write(job.c + tile.row * job.ldc + tile.column, job.ldc, job.rows - tile.row,
                        job.columns - tile.column, place, job.aligned);
}

// Whether this block is the last of a tile's seven, all of whose results it then sees. `told` is a word of shared
// memory that nobody uses now.
__device__ __forceinline__ bool is_last(unsigned int* arrived, Accumulator* told) {
    __threadfence();  // this block's results are there before its arrival is counted
    __syncthreads();
    if (threadIdx.x == 0) *told = atomicAdd(arrived, 1u) == FACTORS - 1 ? 1 : 0;
    __syncthreads();
    const bool last = *told != Accumulator(0);
    __syncthreads();  // the word is the pipeline's again
    __threadfence();
    return last;
}

// One tile of all four quarters of C, out of the seven products from `products` on.
__device__ __forceinline__ void put_together(const Accumulator* products, const Halves& half, const Matrices& to,
                                             const Tile& tile) {
    constexpr int RUNS = BLOCK_N / GROUP;
    const Index m = to.a.outers, n = to.b.outers, size = half.m * half.n;
    for (int run = threadIdx.x; run < BLOCK_M * RUNS; run += THREADS) {
        const Index row = tile.row + run / RUNS, column = tile.column + run % RUNS * GROUP;
        if (row >= half.m || column >= half.n) continue;
        Accumulator of[FACTORS][GROUP], quarters[4][GROUP];
#pragma unroll
        for (int product = 0; product < FACTORS; ++product)
            read_run<GROUP>(of[product], products + product * size + row * half.n + column);
#pragma unroll
        for (int i = 0; i < GROUP; ++i) {
            quarters[0][i] = of[0][i] + of[3][i] - of[4][i] + of[6][i];
            quarters[1][i] = of[2][i] + of[4][i];
            quarters[2][i] = of[1][i] + of[3][i];
            quarters[3][i] = of[0][i] - of[1][i] + of[2][i] + of[5][i];
        }
        Product* const upper = to.c + row * to.ldc + column;
        Product* const lower = upper + half.m * to.ldc;
        const Index left = n - half.n - column;  // of the quarters on the right
        write_run<GROUP>(upper, quarters[0], GROUP, to.aligned_c);
        write_run<GROUP>(upper + half.n, quarters[1], left, to.aligned_c);
        if (row + half.m >= m) continue;
        write_run<GROUP>(lower, quarters[2], GROUP, to.aligned_c);
        write_run<GROUP>(lower + half.n, quarters[3], left, to.aligned_c);
    }
}

enum Way { WHOLE, BY_QUARTERS, BY_SUMS };

// What this layer of the grid makes a tile of. Quarters of C that are made in the ordinary way need four of the seven.
__device__ __forceinline__ Job job_of(Way way, int product, const Matrices& of, const Halves& half, Index item_a,
                                      Index item_b, Accumulator* products) {
    if (way == BY_SUMS)
        return {left_of(product, of, half, item_a),
                right_of(product, of, half, item_b),
                products + product * half.m * half.n,
                half.n,
                half.m,
                half.n,
                true};
    Job job = {of.a, of.b, of.c, of.ldc, of.a.outers, of.b.outers, of.aligned_c};
    if (way == WHOLE) return job;
    const int row = product / 2, column = product % 2;
    job.a = of.quarter_a(row, 0, half), job.b = of.quarter_b(0, column, half);
    job.a.depths = job.b.depths = of.a.depths;
    job.c += row * half.m * of.ldc + column * half.n;
    job.rows = product < 4 ? job.a.outers : 0, job.columns = job.b.outers;
    return job;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    strassen(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
             Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch,
             unsigned char* workspace) {
    DYNAMIC_SHARED(shared);
    Accumulator* const tiles = reinterpret_cast<Accumulator*>(shared);
    const ThreadTile place(threadIdx.x);
    const Halves half(workspace, m, n, k, stride_a, stride_b, batch);
    const bool is_whole = gridDim.z <= batch;
    const Tile tile = tile_of_block(is_whole ? n : half.n, BLOCK_M, BLOCK_N);
    const int each = is_whole ? 1 : FACTORS;
    for (Index layer = blockIdx.z; layer < batch * each; layer += gridDim.z) {
        const Index item = layer / each, item_a = stride_a ? item : 0, item_b = stride_b ? item : 0;
        const int product = layer % each;
        const Matrices of = {{a + item * stride_a, lda, m, k, is_aligned<CourierA::COUNT>(a, lda, stride_a)},
                             {b + item * stride_b, ldb, n, k, is_aligned<CourierB::COUNT>(b, ldb, stride_b)},
                             c + item * stride_c,
                             ldc,
                             is_aligned<GROUP>(c, ldc, stride_c)};
        Way way = WHOLE;
        if (!is_whole) way = half.is_ordinary(half.peaks_a[item_a], half.peaks_b[item_b]) ? BY_QUARTERS : BY_SUMS;
        Accumulator* const products = half.products + item * FACTORS * half.m * half.n;
        const Job job = job_of(way, product, of, half, item_a, item_b, products);
        if (tile.row >= job.rows || tile.column >= job.columns) continue;
        multiply(job, tile, tiles, place);
        if (way == BY_SUMS && is_last(half.arrivals + item * half.tiles + blockIdx.x, tiles))
            put_together(products, half, of, tile);
    }
}
