// The last few rows and columns of a product, for kernels whose tiles would hold little else there: C's rows from
// `rows` on and, above them, its columns from `columns` on.
//
// Each part is a few vectors times a matrix, so the memory is the limit. Where the matrix's lines run along k, as B
// does not in a plain A·B, a warp takes lines to itself, and the vectors come through shared memory; where they run
// along the product, threads next to each other take neighbouring elements of a line, and the block's lines of k meet
// at its end. Sums are added in an order that is the same in each run.
//
// VECTORS: how many there are at most, 1, 2, 4 or 8. NARROW: blocks of few lines, many enough to ask for a small matrix
// at once; else of more, which share what they read of the vectors.
#include "common.cuh"
#include "dependent_launch.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int PACKED = 16 / sizeof(Element);                      // elements that a thread reads at once
constexpr int ACROSS = NARROW ? 2 : 4;                            // threads next to each other on a line
constexpr int STRIP = ACROSS * PACKED, LINES = THREADS / ACROSS;  // of the product; of k, a block's at once
constexpr int ROWS_OF_WARP = NARROW ? 1 : 4, ROWS = WARPS * ROWS_OF_WARP;
constexpr int DEPTH = 16384 / (VECTORS * sizeof(Accumulator));  // steps of k of the vectors, in shared memory
constexpr int PACKED_BYTES = 16, CHUNK = 32 * PACKED;
// What a thread reads before it multiplies any.
constexpr int LINES_AHEAD = VECTORS == 8 ? 4 : 8;
constexpr int CHUNKS_AHEAD = 8 / ROWS_OF_WARP * CHUNK < DEPTH ? 8 / ROWS_OF_WARP : DEPTH / CHUNK;
static_assert(sizeof(Element) >= 4, "kernels of smaller elements leave no edge");
static_assert(VECTORS == 1 || VECTORS == 2 || VECTORS == 4 || VECTORS == 8, "VECTORS is a power of two up to 8");
static_assert(STRIP * VECTORS <= THREADS, "each thread of a block writes one element at most");
static_assert(DEPTH % (CHUNKS_AHEAD * CHUNK) == 0 && DEPTH % THREADS == 0, "vectors are read in whole rounds");

// Some rows of A or columns of B, and the matrix that they are multiplied by: what is at (i, step) and (step, j).
struct Part {
    const Element *vectors, *matrix;
    Index vector_step, vector_k_step, pitch;  // the matrix's, from one line to the next
    int count;                                // of vectors
    Index extent, k;                          // of the product, and of both operands
    Product* out;
    Index out_vector_step, out_step;

    __device__ __forceinline__ Accumulator of_vector(int i, Index step) const {
        return i < count && step < k ? widen(vectors[i * vector_step + step * vector_k_step]) : Accumulator(0);
    }
};

__device__ __forceinline__ bool is_packed(const Part& part) {
    const unsigned long long address = reinterpret_cast<unsigned long long>(part.matrix);
    return (address | static_cast<unsigned long long>(part.pitch) * sizeof(Element)) % PACKED_BYTES == 0;
}

struct __align__(PACKED_BYTES) Packed {
    Element elements[PACKED];
};

// Elements of a line, zeros for those past its `count`. Reads have no branches between them, so that many are on their
// way at once: whether they are WHOLE, and begin where they may be read at once, is known for all of a block.
template <bool WHOLE>
__device__ __forceinline__ Packed read(const Element* from, Index count) {
    if constexpr (WHOLE) {
        return count > 0 ? *reinterpret_cast<const Packed*>(from) : Packed();
    } else {
        Packed packed;
#pragma unroll
        for (int i = 0; i < PACKED; ++i)
            packed.elements[i] = i < count ? from[i] : Element(0);
        return packed;
    }
}

// ---- lines along the product ----
template <bool WHOLE>
__device__ __forceinline__ void add_lines(const Part& part, Index first, Accumulator (&sums)[VECTORS][PACKED]) {
    const Index column = first + threadIdx.x % ACROSS * PACKED, left = part.extent - column;
    for (Index line = threadIdx.x / ACROSS; line < part.k; line += LINES_AHEAD * LINES) {
        Packed ahead[LINES_AHEAD];
        Accumulator factors[LINES_AHEAD][VECTORS];
#pragma unroll
        for (int i = 0; i < LINES_AHEAD; ++i) {
            const Index step = line + i * LINES;
            ahead[i] = read<WHOLE>(part.matrix + step * part.pitch + column, step < part.k ? left : 0);
#pragma unroll
            for (int v = 0; v < VECTORS; ++v)
                factors[i][v] = part.of_vector(v, step);
        }
#pragma unroll
        for (int i = 0; i < LINES_AHEAD; ++i)
#pragma unroll
            for (int v = 0; v < VECTORS; ++v)
#pragma unroll
                for (int j = 0; j < PACKED; ++j)
                    sums[v][j] = multiply_add(factors[i][v], widen(ahead[i].elements[j]), sums[v][j]);
    }
}

__device__ __forceinline__ void across(const Part& part, Index first) {
    __shared__ Accumulator of_warps[WARPS][VECTORS * STRIP];
    Accumulator sums[VECTORS][PACKED] = {};
    if (is_packed(part) && first + STRIP <= part.extent)
        add_lines<true>(part, first, sums);
    else
        add_lines<false>(part, first, sums);
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
        for (int j = 0; j < PACKED; ++j) {
            for (int offset = 16; offset >= ACROSS; offset /= 2)
                sums[v][j] += __shfl_xor_sync(0xFFFFFFFFu, sums[v][j], offset);
            if (lane < ACROSS) of_warps[threadIdx.x / 32][v * STRIP + lane * PACKED + j] = sums[v][j];
        }
    __syncthreads();
    const int v = threadIdx.x / STRIP, column = threadIdx.x % STRIP;
    if (v >= part.count || first + column >= part.extent) return;
    Accumulator sum = 0;
    for (int warp = 0; warp < WARPS; ++warp)
        sum += of_warps[warp][threadIdx.x];
    part.out[v * part.out_vector_step + (first + column) * part.out_step] = narrow(sum);
}

// ---- lines along k ----
typedef Accumulator Vectors[VECTORS][DEPTH];

// Steps of ROWS_OF_WARP lines from `depth` on, as many as there are vectors in shared memory. Lines past the product
// are the last one again, and go nowhere.
template <bool WHOLE>
struct Ahead {
    Packed packed[CHUNKS_AHEAD][ROWS_OF_WARP];

    __device__ __forceinline__ void read_lines(const Part& part, Index row, Index depth, int at, int end) {
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS_AHEAD; ++chunk)
#pragma unroll
            for (int i = 0; i < ROWS_OF_WARP; ++i) {
                const Index line = row + i < part.extent ? row + i : part.extent - 1;
                const int step = at + chunk * CHUNK;
                packed[chunk][i] = read<WHOLE>(part.matrix + line * part.pitch + depth + step, end - step);
            }
    }

    __device__ __forceinline__ void add(const Vectors& vectors, int at, int end,
                                        Accumulator (&sums)[ROWS_OF_WARP][VECTORS]) const {
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS_AHEAD; ++chunk)
#pragma unroll
            for (int v = 0; v < VECTORS; ++v)
#pragma unroll
                for (int j = 0; j < PACKED; ++j) {
                    const int step = at + chunk * CHUNK + j;
                    const Accumulator factor = step < end ? vectors[v][step] : Accumulator(0);  // it may be infinite
#pragma unroll
                    for (int i = 0; i < ROWS_OF_WARP; ++i)
                        sums[i][v] = multiply_add(factor, widen(packed[chunk][i].elements[j]), sums[i][v]);
                }
    }
};

__device__ __forceinline__ void read_vectors(const Part& part, Vectors& vectors, Index depth) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
        for (int i = 0; i < DEPTH; i += THREADS)
            if (depth + i < part.k) vectors[v][i + threadIdx.x] = part.of_vector(v, depth + i + threadIdx.x);
}

// What comes first of the lines is read before the vectors, so that both are on their way at once.
__device__ __forceinline__ void along(const Part& part, Index first) {
    __shared__ __align__(16) Vectors vectors;
    Accumulator sums[ROWS_OF_WARP][VECTORS] = {};
    const Index row = first + threadIdx.x / 32 * ROWS_OF_WARP;
    const int of_lane = threadIdx.x % 32 * PACKED;
    const bool packed = is_packed(part);
    for (Index depth = 0; depth < part.k; depth += DEPTH) {
        const int end = static_cast<int>(part.k - depth < DEPTH ? part.k - depth : DEPTH);
        const int whole = packed ? end / PACKED * PACKED : 0;
        Ahead<true> ahead;
        Ahead<false> rest;
        if (of_lane < whole) ahead.read_lines(part, row, depth, of_lane, whole);
        __syncthreads();
        read_vectors(part, vectors, depth);
        __syncthreads();
        for (int at = of_lane; at < whole;) {
            ahead.add(vectors, at, whole, sums);
            at += CHUNKS_AHEAD * CHUNK;
            if (at < whole) ahead.read_lines(part, row, depth, at, whole);
        }
        for (int at = whole + of_lane; at < end; at += CHUNKS_AHEAD * CHUNK) {
            rest.read_lines(part, row, depth, at, end);
            rest.add(vectors, at, end, sums);
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS_OF_WARP; ++i)
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            for (int offset = 16; offset > 0; offset /= 2)
                sums[i][v] += __shfl_xor_sync(0xFFFFFFFFu, sums[i][v], offset);
            if (threadIdx.x % 32 == 0 && v < part.count && row + i < part.extent)
                part.out[v * part.out_vector_step + (row + i) * part.out_step] = narrow(sums[i][v]);
        }
}

// Blocks: those of the rows, then those of the columns; the batch goes on z.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    edge(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
         Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch,
         Index rows, Index columns) {
    constexpr int STRIP_B = TRANSPOSE_B ? ROWS : STRIP, STRIP_A = TRANSPOSE_A ? STRIP : ROWS;
    const Index blocks = m > rows ? (n + STRIP_B - 1) / STRIP_B : 0, block = blockIdx.x;
    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Element *const of_a = a + item * stride_a, *const of_b = b + item * stride_b;
        Product* const of_c = c + item * stride_c;
        const int more_rows = static_cast<int>(m - rows), more_columns = static_cast<int>(n - columns);
        if (block < blocks) {
            const Index step = row_step_a(lda);
            Product* const out = of_c + rows * ldc;
            const Part part = {of_a + rows * step, of_b, step, column_step_a(lda), ldb, more_rows, n, k, out, ldc, 1};
            TRANSPOSE_B ? along(part, block * STRIP_B) : across(part, block * STRIP_B);
        } else {
            const Index step = column_step_b(ldb), k_step = row_step_b(ldb);
            Product* const out = of_c + columns;
            const Part part = {of_b + columns * step, of_a, step, k_step, lda, more_columns, rows, k, out, 1, ldc};
            TRANSPOSE_A ? across(part, (block - blocks) * STRIP_A) : along(part, (block - blocks) * STRIP_A);
        }
        __syncthreads();  // nobody writes the next item's sums while others still read these
    }
    // Whoever waits for this launch waits for the kernel before it too. The other blocks make room.
    if (blockIdx.x == gridDim.x - 1 && blockIdx.z == gridDim.z - 1) wait_on_dependency();
}
