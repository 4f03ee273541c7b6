// The check of D = alpha·A·B + beta·C + bias where A·B itself was never stored (docs/decisions/0064): random
// projections of D without what was added, compared with alpha·A·(B·x), which the sketch has.
//
// Three launches. Before the sketch `size_of_a` and `weigh_addends`: a column's random numbers are in proportion to its
// norm, and what was added counts among it, or a column of B that is small beside its bias would drown all others.
// After it `fused_check`. Macros as in output.cuh; HAS_ADDEND, HAS_BIAS. C and the bias are of D's type.
#include "common.cuh"
#include "output.cuh"

typedef unsigned long long Word;

constexpr int VECTORS = 8, WARPS = 8, THREADS = 32 * WARPS, ROWS = 4;  // rows of a warp
constexpr Word INFINITE_BITS = 0x7FF0000000000000ull;

__device__ __forceinline__ Word bits_of(double value) { return static_cast<Word>(__double_as_longlong(value)); }
__device__ __forceinline__ double of_bits(Word bits) { return __longlong_as_double(static_cast<long long>(bits)); }

__device__ __forceinline__ double over_warp(double value) {
    for (int lanes = 16; lanes > 0; lanes /= 2)
        value += __shfl_xor_sync(0xFFFFFFFFu, value, lanes);
    return value;
}

// What is added to an element of A·B.
struct Addends {
    const Output *c, *bias;
    Index ldc, stride_c, bias_row_step, bias_column_step;
    double beta;

    __device__ __forceinline__ double of_c(Index item, Index row, Index column) const {
#ifdef HAS_ADDEND
        return beta * value_of(c[item * stride_c + row * ldc + column]);
#else
        return 0.0;
#endif
    }
    __device__ __forceinline__ double of_bias(Index row, Index column) const {
#ifdef HAS_BIAS
        return value_of(bias[row * bias_row_step + column * bias_column_step]);
#else
        return 0.0;
#endif
    }
};

// Adds up the squares of A as it is stored; what is not finite is left out. `size` is zero before.
extern "C" __global__ void __launch_bounds__(THREADS)
    size_of_a(const Element* a, double* size, Index rows, Index columns, Index lda, Index stride_a, Index items) {
    double squares = 0.0;
    const Index warps = static_cast<Index>(gridDim.x) * WARPS;
    for (Index line = static_cast<Index>(blockIdx.x) * WARPS + threadIdx.x / 32; line < rows * items; line += warps)
        for (Index column = threadIdx.x % 32; column < columns; column += 32) {
            const double value = widen(a[line / rows * stride_a + line % rows * lda + column]);
            if (isfinite(value)) squares = fma(value, value, squares);
        }
    squares = over_warp(squares);
    if (threadIdx.x % 32 == 0) atomicAdd(size, squares);
}

// Adds to each column's sum of squares of B the mean square of what is added to it, in the same units: over alpha² and
// the mean square norm of A's rows, of which there are `rows_of_a`. A thread has a column; blocks along y and z share
// rows and the batch. Of one B for a whole batch all items count.
extern "C" __global__ void __launch_bounds__(THREADS)
    weigh_addends(const Output* c, const Output* bias, const double* size, double* peaks, Index m, Index n, Index batch,
                  Index items_b, Index ldc, Index stride_c, Index bias_row_step, Index bias_column_step,
                  Index alpha_bits, Index beta_bits, Index rows_of_a) {
    const Addends addends = {c, bias, ldc, stride_c, bias_row_step, bias_column_step, of_bits(beta_bits)};
    const Index column = static_cast<Index>(blockIdx.x) * THREADS + threadIdx.x;
    if (column >= n) return;
    const double alpha = of_bits(alpha_bits), norm = *size / static_cast<double>(rows_of_a);
    const double unit = norm > 0.0 ? alpha * alpha * norm : 1.0;
    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        double squares = 0.0;
        for (Index row = blockIdx.y; row < m; row += gridDim.y) {
            const double one = addends.of_c(item, row, column), other = addends.of_bias(row, column);
            const double more = one * one + other * other;
            if (isfinite(more)) squares += more;
        }
        const Index of_b = items_b > 1 ? item : 0;
        atomicAdd(peaks + of_b * n + column, squares / (unit * static_cast<double>(m * (batch / items_b))));
    }
}

// Of one row and group, sums over its columns: projections of D without what was added, and squares of that, of what
// was added, and of D.
struct RowSums {
    double projections[VECTORS] = {};
    double of_product = 0.0, of_addends = 0.0, of_output = 0.0;

    __device__ __forceinline__ void complete() {
#pragma unroll
        for (double& sum : projections)
            sum = over_warp(sum);
        of_product = over_warp(of_product);
        of_addends = over_warp(of_addends);
        of_output = over_warp(of_output);
    }
};

// A warp takes ROWS rows of a group. `p` and `q` are the sketch's; q and r become those from which the host's formula
// gives this tolerance: T² = of_terms·alpha²·Q + of_product·R + of_addends·E + of_output·D² + underflow²·unit.
extern "C" __global__ void __launch_bounds__(THREADS)
    fused_check(const Output* d, const Output* c, const Output* bias, const double* p, double* q, double* r,
                const double* x, const double* w, const double* unit, const unsigned char* bad_rows,
                const unsigned char* bad_columns, unsigned char* odd_columns, double* difference, Word* worst, Index m,
                Index n, Index batch, Index items_b, Index items_x, Index width, Index groups, Index ldd,
                Index stride_d, Index ldc, Index stride_c, Index bias_row_step, Index bias_column_step,
                Index alpha_bits, Index beta_bits, Index of_terms_bits, Index of_product_bits, Index of_addends_bits,
                Index of_output_bits, Index underflow_bits) {
    const Addends addends = {c, bias, ldc, stride_c, bias_row_step, bias_column_step, of_bits(beta_bits)};
    const double alpha = of_bits(alpha_bits), of_terms = of_bits(of_terms_bits), underflow = of_bits(underflow_bits);
    const Index sets = (m + ROWS - 1) / ROWS, unit_of_work = static_cast<Index>(blockIdx.x) * WARPS + threadIdx.x / 32;
    const Index item = unit_of_work / (sets * groups), within = unit_of_work % (sets * groups);
    if (item >= batch) return;
    const Index group = within / sets, first_row = within % sets * ROWS, lane = threadIdx.x % 32;
    const Index of_x = items_x > 1 ? item : 0, of_b = items_b > 1 ? item : 0;
    const Index last_column = min((group + 1) * width, n);
    RowSums sums[ROWS];
    bool again = false;
    for (Index column = group * width + lane; column < last_column; column += 32) {
        const double weight = w[of_x * n + column];
        again = again || bad_columns[of_b * n + column] != 0;
        if (weight == 0.0) continue;
        const double* const vectors = x + (of_x * n + column) * VECTORS;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const Index row = first_row + i;
            if (row >= m) continue;
            const double value = value_of(d[item * stride_d + row * ldd + column]);
            const double of_c = addends.of_c(item, row, column), of_bias = addends.of_bias(row, column);
            const double rest = value - of_c - of_bias;
            if (!isfinite(rest)) {
                if (bad_rows[item * m + row] == 0) odd_columns[item * n + column] = 1;
                again = true;
                continue;
            }
#pragma unroll
            for (int v = 0; v < VECTORS; ++v)
                sums[i].projections[v] = fma(rest, vectors[v], sums[i].projections[v]);
            sums[i].of_product = fma(rest * rest, weight, sums[i].of_product);
            sums[i].of_addends = fma(of_c * of_c + of_bias * of_bias, weight, sums[i].of_addends);
            sums[i].of_output = fma(value * value, weight, sums[i].of_output);
        }
    }
    if (again) *worst = INFINITE_BITS;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        sums[i].complete();
        const Index row = first_row + i;
        if (lane != 0 || row >= m) continue;
        const Index at = (item * m + row) * groups + group;
        double largest = 0.0;
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const double off = fabs(sums[i].projections[v] - alpha * p[at * VECTORS + v]);
            largest = fmax(largest, off != off ? of_bits(INFINITE_BITS) : off);
        }
        const double rounding = alpha * alpha * q[at] * of_terms + sums[i].of_product * of_bits(of_product_bits) +
                                sums[i].of_addends * of_bits(of_addends_bits) +
                                sums[i].of_output * of_bits(of_output_bits);
        const double tolerance = rounding + underflow * underflow * unit[of_x * groups + group];
        const double ratio = largest == 0.0 && isfinite(tolerance) ? 0.0 : largest * largest / tolerance;
        const bool is_known = isfinite(ratio) && isfinite(tolerance) && bad_rows[item * m + row] == 0;
        difference[at] = largest;
        q[at] = rounding / of_terms;
        r[at] = 0.0;
        atomicMax(worst, is_known ? bits_of(ratio) : INFINITE_BITS);
    }
}
