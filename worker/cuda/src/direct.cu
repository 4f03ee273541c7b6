// Every element of a product of little depth against its sum in float64: the largest error of each row, relative to
// what the caller grants. One launch.
//
// An element c = Σ a·b is granted alpha·Σ|a·b| + beta·√(Σ(a·b)²) + gamma·|Σ a·b| + delta. Rows of A, columns of B and
// elements of C that are not finite are reported and left out.
#include "common.cuh"
#include "double_sums.cuh"

typedef unsigned long long Word;

constexpr int THREADS = 256, TILE = 64, DEPTH = 16;  // rows and columns of a block; terms it has in shared memory
constexpr int SIDE = 16, EACH = TILE / SIDE;         // threads have EACH rows and columns, SIDE apart

// Every member has 64 bits.
struct Direct {
    const Element *a, *b;
    const Product* c;
    Word* worst;                 // (batch, m): bits of the largest ratio; zero before the launch, like the others
    unsigned char* bad_rows;     // (batch, m)
    unsigned char* bad_columns;  // (items_b, n)
    unsigned char* odd_columns;  // (batch, n): not finite in C, though A's row and B's column are
    Index m, n, k;
    Index lda, ldb, ldc, stride_a, stride_b, stride_c;
    Index items_b, batch;
    double alpha, beta, gamma, delta;
};

struct Terms {
    double a[DEPTH][TILE], b[DEPTH][TILE];
    Word worst[TILE];
    int bad_rows[TILE], bad_columns[TILE];
};

#if defined(DTYPE_FLOAT8_E4M3)
__device__ __forceinline__ double number(Product element) { return static_cast<double>(element); }
#endif

// The terms of `lines` lines from `first` on; what is not finite is reported, and zero.
__device__ __forceinline__ void read_finite(double (&terms)[DEPTH][TILE], int* bad, const Element* from, bool along,
                                            Index pitch, Index first, Index lines, Index depth, Index k) {
    const auto line_of = [&](int at) { return first + at < lines ? first + at : Index(-1); };
    const auto term_of = [&](int at, double value) {
        if (isfinite(value)) return value;
        bad[at] = 1;
        return 0.0;
    };
    read_terms<THREADS>(terms, from, along, pitch, depth, k, line_of, term_of);
}

struct Sums : DoubleSum {
    double magnitudes, squares;

    __device__ __forceinline__ void add(double a, double b) {
        const double term = a * b;
        accumulate(a, b, term);
        magnitudes += fabs(term);
        squares = fma(term, term, squares);
    }
    // What is out of range grants nothing.
    __device__ __forceinline__ double ratio(const Direct& direct, double given) const {
        const double error = error_of(given), root = isfinite(squares) ? sqrt(squares) : 0.0;
        const double granted = direct.alpha * magnitudes + direct.beta * root + direct.gamma * fabs(sum) + direct.delta;
        if (error == 0.0) return 0.0;
        return isfinite(granted) && granted > 0.0 && isfinite(error) ? error / granted : infinity();
    }
};

__device__ __forceinline__ void compare(const Direct& direct, Terms& terms, const Sums (&sums)[EACH][EACH], Index item,
                                        Index row, Index column) {
    const int own_row = threadIdx.x / SIDE, own_column = threadIdx.x % SIDE;
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int at = own_row + i * SIDE;
        double worst = 0.0;
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            const int across = own_column + j * SIDE;
            if (row + at >= direct.m || column + across >= direct.n) continue;
            if (terms.bad_rows[at] != 0 || terms.bad_columns[across] != 0) continue;
            const double given = number(direct.c[item * direct.stride_c + (row + at) * direct.ldc + column + across]);
            if (isfinite(given))
                worst = max(worst, sums[i][j].ratio(direct, given));
            else
                direct.odd_columns[item * direct.n + column + across] = 1;
        }
        if (worst > 0.0) atomicMax(&terms.worst[at], static_cast<Word>(__double_as_longlong(worst)));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) direct(const Direct direct) {
    __shared__ Terms terms;
    const Tile tile = tile_of_block(direct.n, TILE, TILE);
    const int thread = threadIdx.x;
    for (Index item = blockIdx.z; item < direct.batch; item += gridDim.z) {
        __syncthreads();  // nobody still reads the last item's
        if (thread < TILE) terms.worst[thread] = 0, terms.bad_rows[thread] = 0, terms.bad_columns[thread] = 0;
        Sums sums[EACH][EACH] = {};
#pragma unroll 1
        for (Index depth = 0; depth < direct.k; depth += DEPTH) {
            __syncthreads();
            read_finite(terms.a, terms.bad_rows, direct.a + item * direct.stride_a, !TRANSPOSE_A, direct.lda, tile.row,
                        direct.m, depth, direct.k);
            read_finite(terms.b, terms.bad_columns, direct.b + item * direct.stride_b, TRANSPOSE_B, direct.ldb,
                        tile.column, direct.n, depth, direct.k);
            __syncthreads();
#pragma unroll 1
            for (int term = 0; term < DEPTH; ++term)
#pragma unroll
                for (int i = 0; i < EACH; ++i)
#pragma unroll
                    for (int j = 0; j < EACH; ++j)
                        sums[i][j].add(terms.a[term][thread / SIDE + i * SIDE],
                                       terms.b[term][thread % SIDE + j * SIDE]);
        }
        __syncthreads();
        compare(direct, terms, sums, item, tile.row, tile.column);
        __syncthreads();
        if (thread >= TILE) continue;
        const Index row = tile.row + thread, column = tile.column + thread;
        const Index of_b = direct.items_b > 1 ? item : 0;
        if (terms.worst[thread] != 0) atomicMax(direct.worst + item * direct.m + row, terms.worst[thread]);
        if (terms.bad_rows[thread] != 0) direct.bad_rows[item * direct.m + row] = 1;
        if (terms.bad_columns[thread] != 0) direct.bad_columns[of_b * direct.n + column] = 1;
    }
}
