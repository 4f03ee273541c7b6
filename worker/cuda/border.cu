// The last few rows and columns of a product, for kernels whose tiles would hold little else there: C's rows from
// `rows` on and, above them, its columns from `columns` on.
//
// Each part is a few vectors times a matrix, so the memory is the limit. Where the matrix's lines run along k, as B
// does not in a plain A·B, a warp takes lines to itself, and the vectors come through shared memory; where they run
// along the product, threads next to each other take neighbouring elements of a line, and the block's lines of k meet
// at its end. Sums are added in an order that is the same in each run.
//
// VECTORS: how many there are at most, 1, 2, 4 or 8.
#include "common.cuh"

constexpr int THREADS = 256, WARPS = THREADS / 32;
constexpr int PACKED = sizeof(Element) == 1 ? 8 : 16 / sizeof(Element);  // elements that a thread reads at once
constexpr int ACROSS = 4;                                                // threads next to each other on a line
constexpr int STRIP = ACROSS * PACKED, LINES = THREADS / ACROSS;         // of the product; of k, a block's at once
constexpr int UNROLLED = 4;
constexpr int ROWS_OF_WARP = 4, ROWS = WARPS * ROWS_OF_WARP;
constexpr int DEPTH = sizeof(Accumulator) == 8 ? 256 : 512;  // steps of k of the vectors, in shared memory
constexpr int EACH = DEPTH / THREADS;
constexpr int PACKED_BYTES = PACKED * sizeof(Element);
static_assert(VECTORS == 1 || VECTORS == 2 || VECTORS == 4 || VECTORS == 8, "VECTORS is a power of two up to 8");
static_assert(STRIP * VECTORS <= THREADS, "each thread of a block writes one element at most");

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

// PACKED elements of a line; zeros for those past its `count`.
struct __align__(PACKED_BYTES) Packed {
    Element elements[PACKED];

    __device__ __forceinline__ void read(const Element* from, Index count, bool packed) {
        if (packed && count >= PACKED) {
            *this = *reinterpret_cast<const Packed*>(from);
            return;
        }
#pragma unroll
        for (int i = 0; i < PACKED; ++i)
            elements[i] = i < count ? from[i] : Element(0);
    }
};

// ---- lines along the product ----
__device__ __forceinline__ void add_lines(const Part& part, Index first, Accumulator (&sums)[VECTORS][PACKED]) {
    const bool packed = is_packed(part);
    const Index column = first + threadIdx.x % ACROSS * PACKED, left = part.extent - column;
    for (Index line = threadIdx.x / ACROSS; line < part.k; line += UNROLLED * LINES) {
        Packed read[UNROLLED];
#pragma unroll
        for (int i = 0; i < UNROLLED; ++i) {
            const Index step = line + i * LINES;
            const Index count = step < part.k && left > 0 ? left : 0;
            read[i].read(count ? part.matrix + step * part.pitch + column : part.matrix, count, packed);
        }
#pragma unroll
        for (int i = 0; i < UNROLLED; ++i)
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                const Accumulator factor = part.of_vector(v, line + i * LINES);
#pragma unroll
                for (int j = 0; j < PACKED; ++j)
                    sums[v][j] = multiply_add(factor, widen(read[i].elements[j]), sums[v][j]);
            }
    }
}

__device__ __forceinline__ void across(const Part& part, Index first) {
    __shared__ Accumulator of_warps[WARPS][VECTORS * STRIP];
    Accumulator sums[VECTORS][PACKED] = {};
    add_lines(part, first, sums);
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
__device__ __forceinline__ void add_depth(const Part& part, const Accumulator (&vectors)[VECTORS][DEPTH], Index row,
                                          Index depth, bool packed, Accumulator (&sums)[ROWS_OF_WARP][VECTORS]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int at = 0; at < DEPTH; at += 32 * PACKED) {
        const int place = at + lane * PACKED;
        const Index step = depth + place;
        Packed read[ROWS_OF_WARP];
#pragma unroll
        for (int i = 0; i < ROWS_OF_WARP; ++i) {
            const Index count = row + i < part.extent && step < part.k ? part.k - step : 0;
            read[i].read(count ? part.matrix + (row + i) * part.pitch + step : part.matrix, count, packed);
        }
#pragma unroll
        for (int v = 0; v < VECTORS; ++v)
#pragma unroll
            for (int j = 0; j < PACKED; ++j) {
                const Accumulator factor = vectors[v][place + j];
#pragma unroll
                for (int i = 0; i < ROWS_OF_WARP; ++i)
                    sums[i][v] = multiply_add(factor, widen(read[i].elements[j]), sums[i][v]);
            }
    }
}

__device__ __forceinline__ void along(const Part& part, Index first) {
    __shared__ __align__(16) Accumulator vectors[VECTORS][DEPTH];
    Accumulator sums[ROWS_OF_WARP][VECTORS] = {}, next[EACH][VECTORS];
    const Index row = first + threadIdx.x / 32 * ROWS_OF_WARP;
    const bool packed = is_packed(part);
    for (Index depth = -DEPTH; depth < part.k; depth += DEPTH) {
#pragma unroll
        for (int i = 0; i < EACH; ++i)
#pragma unroll
            for (int v = 0; v < VECTORS; ++v)
                next[i][v] = part.of_vector(v, depth + DEPTH + i * THREADS + threadIdx.x);
        if (depth >= 0) add_depth(part, vectors, row, depth, packed, sums);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < EACH; ++i)
#pragma unroll
            for (int v = 0; v < VECTORS; ++v)
                vectors[v][i * THREADS + threadIdx.x] = next[i][v];
        __syncthreads();
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
extern "C" __global__ void __launch_bounds__(THREADS)
    border(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
           Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch,
           Index rows, Index columns) {
    constexpr int STRIP_B = TRANSPOSE_B ? ROWS : STRIP, STRIP_A = TRANSPOSE_A ? STRIP : ROWS;
    const Index blocks = m > rows ? (n + STRIP_B - 1) / STRIP_B : 0, block = blockIdx.x;
    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Element *const of_a = a + item * stride_a, *const of_b = b + item * stride_b;
        Product* const of_c = c + item * stride_c;
        if (block < blocks) {
            const Part part = {of_a + rows * row_step_a(lda),
                               of_b,
                               row_step_a(lda),
                               column_step_a(lda),
                               ldb,
                               static_cast<int>(m - rows),
                               n,
                               k,
                               of_c + rows * ldc,
                               ldc,
                               1};
            TRANSPOSE_B ? along(part, block * STRIP_B) : across(part, block * STRIP_B);
        } else {
            const Part part = {of_b + columns * column_step_b(ldb),
                               of_a,
                               column_step_b(ldb),
                               row_step_b(ldb),
                               lda,
                               static_cast<int>(n - columns),
                               rows,
                               k,
                               of_c + columns,
                               1,
                               ldc};
            TRANSPOSE_A ? across(part, (block - blocks) * STRIP_A) : along(part, (block - blocks) * STRIP_A);
        }
        __syncthreads();  // nobody writes the next item's sums while others still read these
    }
}
