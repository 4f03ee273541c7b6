// Each thread keeps a THREAD_M×THREAD_N tile of C in registers.
//
// Per step of k a thread reads THREAD_M elements of A and THREAD_N of B from shared memory and does their outer
// product: THREAD_M·THREAD_N multiply-adds for THREAD_M+THREAD_N reads, where one element a thread needs two reads for
// one. Its rows and columns are spaced by the block's threads, so that neighbouring threads read neighbouring words of
// shared memory and write neighbouring elements of C.
#include "common.cuh"

constexpr int THREADS_X = BLOCK_N / THREAD_N, THREADS_Y = BLOCK_M / THREAD_M, THREADS = THREADS_X * THREADS_Y;
static_assert(BLOCK_M % THREAD_M == 0 && BLOCK_N % THREAD_N == 0, "the block's tile is a whole number of thread tiles");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "a block is 1 to 32 whole warps");

constexpr int BLOCKS = blocks_per_multiprocessor(THREADS, THREAD_M* THREAD_N, THREAD_M + THREAD_N);

// In shared memory A lies along k and B along its columns. All threads of a warp read one or two rows of A, so they get
// the same words, and the compiler joins a thread's reads of one row over some steps of k into one. Rows so much longer
// put the words of a column into different banks.
constexpr int PADDING = 16 / sizeof(Accumulator);
constexpr int ROW_A = BLOCK_K + PADDING, ROW_B = BLOCK_N + PADDING;

// Carries tiles of one operand, scalar by scalar: OUTER rows of A, or columns of B, over BLOCK_K steps of k. In shared
// memory neighbours along the outer axis are OUTER_STEP words apart, and neighbours along k DEPTH_STEP.
template <int OUTER, int OUTER_STEP, int DEPTH_STEP, bool ALONG_K>
struct Porter {
    static constexpr int LENGTH = ALONG_K ? BLOCK_K : OUTER, LINES = ALONG_K ? OUTER : BLOCK_K;  // LENGTH lie together
    static constexpr int POWER = LENGTH & -LENGTH, X = POWER < 32 ? POWER : 32, Y = THREADS / X;
    static constexpr int ACROSS = LENGTH / X,
                         DOWN = (LINES + Y - 1) / Y;          // elements of a thread, along memory and across
    static constexpr int LOAD = ACROSS < 8 ? 8 / ACROSS : 1;  // lines on their way at a time: about 8 elements
    static constexpr int LOADS = (DOWN + LOAD - 1) / LOAD;
    static constexpr int PLACE_STEP = ALONG_K ? DEPTH_STEP : OUTER_STEP, LINE_STEP = ALONG_K ? OUTER_STEP : DEPTH_STEP;

    const Element* from;  // this thread's first element of the tile
    Index down;           // from one of its lines to the next
    Index outers;         // rows or columns of the tile that lie in the operand
    int x, y;
    Accumulator held[LOAD][ACROSS];

    __device__ __forceinline__ Porter(const Element* corner, Index ld, Index outers, int thread)
        : from(corner + thread / X * ld + thread % X), down(Y * ld), outers(outers), x(thread % X), y(thread / X) {}

    // What lies outside is zero in A and in B alike: 0 against an infinity would make a NaN. Of the tile's steps of k,
    // `depths` lie in the operand.
    template <bool GUARDED>
    __device__ __forceinline__ void fetch(int load, Index depths) {
        const Index lines = ALONG_K ? outers : depths, length = ALONG_K ? depths : outers;
#pragma unroll
        for (int i = 0; i < LOAD; ++i) {
            const int line = y + (load * LOAD + i) * Y;
            if (LINES % (LOAD * Y) != 0 && line >= LINES) break;
            const Element* run = from + (load * LOAD + i) * down;
#pragma unroll
            for (int j = 0; j < ACROSS; ++j) {
                const bool inside = !GUARDED || (line < lines && x + j * X < length);
                held[i][j] = inside ? widen(run[j * X]) : Accumulator(0);
            }
        }
    }

    __device__ __forceinline__ void put(int load, Accumulator* tile) const {
#pragma unroll
        for (int i = 0; i < LOAD; ++i) {
            const int line = y + (load * LOAD + i) * Y;
            if (LINES % (LOAD * Y) != 0 && line >= LINES) break;
#pragma unroll
            for (int j = 0; j < ACROSS; ++j)
                tile[line * LINE_STEP + (x + j * X) * PLACE_STEP] = held[i][j];
        }
    }
};

using PorterA = Porter<BLOCK_M, ROW_A, 1, !TRANSPOSE_A>;
using PorterB = Porter<BLOCK_N, 1, ROW_B, TRANSPOSE_B>;

template <bool GUARDED>
__device__ __forceinline__ void stage(PorterA& porter_a, PorterB& porter_b, Accumulator* tile_a, Accumulator* tile_b,
                                      Index depths) {
#pragma unroll 1
    for (int load = 0; load < PorterA::LOADS || load < PorterB::LOADS; ++load) {
        if (load < PorterA::LOADS) porter_a.template fetch<GUARDED>(load, depths);
        if (load < PorterB::LOADS) porter_b.template fetch<GUARDED>(load, depths);
        if (load == 0) __syncthreads();  // nobody overwrites the tiles while others still read them
        if (load < PorterA::LOADS) porter_a.put(load, tile_a);
        if (load < PorterB::LOADS) porter_b.put(load, tile_b);
    }
    __syncthreads();
}

// `column_a` and `row_b` are this thread's own first words of the two tiles.
__device__ __forceinline__ void multiply(const Accumulator* column_a, const Accumulator* row_b,
                                         Accumulator (&sums)[THREAD_M][THREAD_N]) {
#pragma unroll 2
    for (int depth = 0; depth < BLOCK_K; ++depth) {
        Accumulator from_a[THREAD_M], from_b[THREAD_N];
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i)
            from_a[i] = column_a[i * THREADS_Y * ROW_A];
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j)
            from_b[j] = row_b[j * THREADS_X];
        add_outer_product(sums, from_a, from_b);
        ++column_a;
        row_b += ROW_B;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    register_tiled(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m,
                   Index n, Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c,
                   Index batch) {
    DYNAMIC_SHARED(shared);
    Accumulator* const tile_a = reinterpret_cast<Accumulator*>(shared);
    Accumulator* const tile_b = tile_a + BLOCK_M * ROW_A;
    const int thread = threadIdx.y * THREADS_X + threadIdx.x;
    const Tile tile = tile_of_block(n, BLOCK_M, BLOCK_N);
    const Index rows = m - tile.row, columns = n - tile.column;
    const bool interior = rows >= BLOCK_M && columns >= BLOCK_N;
    const Index whole = interior ? k - k % BLOCK_K : 0;  // up to here no element needs a guard

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        PorterA porter_a(a + item * stride_a + tile.row * row_step_a(lda), lda, rows, thread);
        PorterB porter_b(b + item * stride_b + tile.column * column_step_b(ldb), ldb, columns, thread);
        Accumulator sums[THREAD_M][THREAD_N] = {};
        for (Index depth = 0; depth < k; depth += BLOCK_K) {
            if (depth < whole)
                stage<false>(porter_a, porter_b, tile_a, tile_b, BLOCK_K);
            else
                stage<true>(porter_a, porter_b, tile_a, tile_b, k - depth);
            multiply(tile_a + threadIdx.y * ROW_A, tile_b + threadIdx.x, sums);
            porter_a.from += BLOCK_K * column_step_a(lda);
            porter_b.from += BLOCK_K * row_step_b(ldb);
        }
        Product* const corner_c = c + item * stride_c + tile.row * ldc + tile.column;
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            const int row = threadIdx.y + i * THREADS_Y;
#pragma unroll
            for (int j = 0; j < THREAD_N; ++j) {
                const int column = threadIdx.x + j * THREADS_X;
                if (row < rows && column < columns) corner_c[row * ldc + column] = narrow(sums[i][j]);
            }
        }
    }
}
