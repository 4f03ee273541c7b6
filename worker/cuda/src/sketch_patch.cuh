// A warp's part of a matrix in registers, and its product with the VECTORS vectors.
//
// With g = lane / 4 and t = lane % 4, a lane has ROWS rows and, of each step of 4·COLUMNS columns, the COLUMNS from
// t·COLUMNS on. Row-major it reads runs of 16 bytes of row g of each of ROWS groups of eight rows. Of a matrix that is
// stored transposed it reads runs of ROWS neighbouring rows. Both are fragments of mma.m8n8k4 for .f64 (PTX ISA,
// "Matrix Fragments for mma.m8n8k4 with .f64"), whose steps and rows may be dealt out in any order.
#pragma once
#include "sketch.cuh"

#ifndef TENSOR  // whether to use float64 tensor cores
#if FLOATS && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define TENSOR 1
#else
#define TENSOR 0
#endif
#endif

template <int BYTES>
struct Chunk;
template <>
struct Chunk<16> {
    typedef uint4 Type;
};
template <>
struct Chunk<8> {
    typedef uint2 Type;
};
template <>
struct Chunk<4> {
    typedef unsigned int Type;
};

template <typename Stored, int COUNT>
union Run {  // of elements next to each other in memory
    typedef typename Chunk<COUNT * sizeof(Stored)>::Type Whole;
    Whole whole;
    Stored elements[COUNT];

    __device__ __forceinline__ void read(const Stored* from) { whole = __ldg(reinterpret_cast<const Whole*>(from)); }
    // Only the first `count`; the others are zero.
    __device__ __forceinline__ void read_some(const Stored* from, Index count) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            elements[i] = i < count ? __ldg(from + i) : Stored{};
    }
};

// Where a matrix lies, as the product has it.
template <typename Stored>
struct Matrix {
    const Stored* elements;
    Index rows, columns, pitch;
};

constexpr int MAX_ROWS = 4;  // of a lane: without tensor cores it has all vectors' sums of each

template <typename Stored, bool TRANSPOSED>
struct Patch {
    static constexpr int RUN_BYTES = TRANSPOSED && sizeof(Stored) * MAX_ROWS < 16 ? sizeof(Stored) * MAX_ROWS : 16;
    static constexpr int RUN = RUN_BYTES / sizeof(Stored);
    static constexpr int ROWS = TRANSPOSED ? RUN : 2;
    static constexpr int COLUMNS = TRANSPOSED ? 4 : RUN;
    static constexpr int RUNS = TRANSPOSED ? COLUMNS : ROWS;
    static constexpr int SET = 8 * ROWS;      // rows of a warp
    static constexpr int STEP = 4 * COLUMNS;  // columns

    Run<Stored, RUN> runs[RUNS];

    __device__ __forceinline__ Stored at(int row, int column) const {
        return TRANSPOSED ? runs[column].elements[row] : runs[row].elements[column];
    }
    __device__ static __forceinline__ int row_of(int row) {  // in the set
        const int g = threadIdx.x % 32 / 4;
        return TRANSPOSED ? g * ROWS + row : row * 8 + g;
    }
    __device__ static __forceinline__ int column_of(int column) {  // in the step
        return threadIdx.x % 4 * COLUMNS + column;
    }
};

// Reads a warp's set of rows, step by step.
template <typename Stored, bool TRANSPOSED>
struct Reader {
    typedef Patch<Stored, TRANSPOSED> T;
    const Stored* lines[T::RUNS];  // of the first step
    Index row, column, pitch;      // of the lane's first element,
    Index rows, last_column;       // and where the matrix and the chunk end
    bool whole;                    // whether runs are aligned and within the matrix

    __device__ __forceinline__ Reader(const Matrix<Stored>& matrix, Index first_row, Index first_column, Index last)
        : row(first_row + T::row_of(0)),
          column(first_column + T::column_of(0)),
          pitch(matrix.pitch),
          rows(matrix.rows),
          last_column(last) {
        const Stored* const corner = matrix.elements + (TRANSPOSED ? first_column * pitch : first_column);
        const Word places = reinterpret_cast<Word>(corner) | static_cast<Word>(pitch) * sizeof(Stored);
        whole = places % T::RUN_BYTES == 0 && (!TRANSPOSED || first_row + T::SET <= rows);
#pragma unroll
        for (int i = 0; i < T::RUNS; ++i)
            lines[i] =
                matrix.elements + (TRANSPOSED ? (column + i) * pitch + row : clamped(row + i * 8) * pitch + column);
    }
    // A row past the end is read as the last one is, and its sums are not written.
    __device__ __forceinline__ Index clamped(Index at) const { return at < rows ? at : rows - 1; }

    __device__ __forceinline__ void read(T& patch, int step) const {
        const Index further = step * T::STEP * (TRANSPOSED ? pitch : 1);
#pragma unroll
        for (int i = 0; i < T::RUNS; ++i)
            patch.runs[i].read(lines[i] + further);
    }
    __device__ __forceinline__ void read_some(T& patch, int step) const {
        const Index further = step * T::STEP * (TRANSPOSED ? pitch : 1), beyond = column + step * T::STEP;
#pragma unroll
        for (int i = 0; i < T::RUNS; ++i) {
            const Index left = TRANSPOSED ? (beyond + i < last_column ? rows - row : 0) : last_column - beyond;
            patch.runs[i].read_some(lines[i] + further, left);
        }
    }
};

// ---- vectors in shared memory, so that a lane's share of two steps' fragments is 16 bytes without bank conflicts ----
struct Staged {
    Number x[CHUNK * VECTORS];
    double w[CHUNK];
    int exponents[SCALED ? CHUNK : 1];
};

template <int COLUMNS>
__device__ __forceinline__ int place_of(int column, int vector) {
    const int step = column / (4 * COLUMNS), t = column % (4 * COLUMNS) / COLUMNS, i = column % COLUMNS;
#if TENSOR
    return ((step * COLUMNS + i) / 2 * 32 + vector * 4 + t) * 2 + i % 2;
#else
    return ((step * COLUMNS + i) * 4 + vector / 2) * 8 + t * 2 + vector % 2;
#endif
}

struct __align__(16) Pair {
    Number at[2];
};

#if TENSOR && !defined(EMULATED)  // an emulation on the CPU brings its own instruction
// sums += a b: a is row g at step t, b is step t of vector g; sums are of row g, vectors 2t and 2t + 1.
__device__ __forceinline__ void multiply_fragments(double (&sums)[2], double a, double b) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                 : "+d"(sums[0]), "+d"(sums[1])
                 : "d"(a), "d"(b));
}
#endif

// Of one row with each vector. In the end a lane has vectors 2t and 2t + 1, in at[0] and at[1].
struct RowSums {
    Number at[TENSOR ? 2 : VECTORS] = {};

    __device__ __forceinline__ void complete() {
#if !TENSOR
        const int t = threadIdx.x % 4;
#pragma unroll
        for (int v = 0; v < 4; ++v)  // lanes 0 and 1 keep the first half, 2 and 3 the other
            exchange(v, v + 4, t >= 2, 2);
#pragma unroll
        for (int v = 0; v < 2; ++v)
            exchange(v, v + 2, t % 2 != 0, 1);
#endif
    }
    __device__ __forceinline__ void exchange(int low, int high, bool keeps_high, int lanes) {
        const Number one = at[low], other = at[high], kept = keeps_high ? other : one, given = keeps_high ? one : other;
        at[low] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, lanes);
    }
};

// Adds `values`, the lane's of one column of a step: `fragment` counts these columns, from the chunk's first.
template <int ROWS>
__device__ __forceinline__ void add_columns(RowSums (&sums)[ROWS], const Number (&values)[2][ROWS], int fragment,
                                            const Number* x) {
#if TENSOR
    const Pair pair = reinterpret_cast<const Pair*>(x)[fragment / 2 * 32 + threadIdx.x % 32];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int row = 0; row < ROWS; ++row)
            multiply_fragments(sums[row].at, values[i][row], pair.at[i]);
#else
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int v = 0; v < VECTORS; v += 2) {
            const Pair pair = reinterpret_cast<const Pair*>(x)[((fragment + i) * 4 + v / 2) * 4 + threadIdx.x % 4];
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                sums[row].at[v] += values[i][row] * pair.at[0];
                sums[row].at[v + 1] += values[i][row] * pair.at[1];
            }
        }
#endif
}
