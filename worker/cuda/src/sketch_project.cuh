// The projection of a set of rows on a chunk of columns' vectors, by a warp.
//
// No element is tested for NaN or infinity: they show in the sums, and a set of rows with one is done again carefully.
#pragma once
#include "sketch_digest.cuh"
#include "sketch_patch.cuh"

enum class Role { B, A, C };
// That a lane has on their way while it computes: of rows of floats twice as many, which was measured to be faster
// although a few registers spill.
template <typename Stored, bool TRANSPOSED>
constexpr int RUNS_AHEAD = FLOATS && !SCALED && sizeof(Stored) > 1 && !TRANSPOSED ? 8 : 4;

// A chunk of columns with what is known of the rows; `matrix` begins at the item.
template <typename Stored>
struct Task {
    Matrix<Stored> matrix;
    Index first_column, last_column, first_row;
    const Peak* row_peaks;  // of the item, float64 only
    unsigned char* bad;     // A and C: flags of its rows
    double floor2;
    Hashed hashed;
};

template <typename Stored, bool TRANSPOSED, Role ROLE>
struct Projection {
    typedef Patch<Stored, TRANSPOSED> T;
    RowSums sums[T::ROWS] = {};
    double squares[T::ROWS] = {};
    int scale[T::ROWS] = {};  // exponents of rows
    BlockSums<T::ROWS> hashes;
    static constexpr bool SQUARES = FLOATS;

    __device__ __forceinline__ Projection(const Task<Stored>& task) {
        if constexpr (SCALED && ROLE != Role::B)
#pragma unroll
            for (int row = 0; row < T::ROWS; ++row) {
                const Index at = task.first_row + T::row_of(row);
                if (at < task.matrix.rows) scale[row] = exponent_of(static_cast<Word>(task.row_peaks[at]));
            }
    }

    // Zero for what is not finite, which is told.
    __device__ __forceinline__ Number finite(const Task<Stored>& task, Number value, int row) const {
#if FLOATS
        if (isfinite(value)) return value;
        const Index i = task.first_row + T::row_of(row);
        if (ROLE != Role::B && i < task.matrix.rows) task.bad[i] = 1;
        return 0.0;
#else
        return value;
#endif
    }

    template <bool CAREFUL>
    __device__ __forceinline__ void add(const Task<Stored>& task, const T& patch, int step, const Staged& staged) {
#pragma unroll
        for (int i = 0; i < T::COLUMNS; i += 2) {
            Number values[2][T::ROWS];
#pragma unroll
            for (int j = 0; j < 2; ++j)
#pragma unroll
                for (int row = 0; row < T::ROWS; ++row) {
                    const int column = step * T::STEP + T::column_of(i + j);
                    Number value = number(patch.at(row, i + j));
                    if (CAREFUL) value = finite(task, value, row);
                    double floor2 = task.floor2;
#if SCALED
                    const int exponent = scale[row] + (ROLE == Role::A ? 0 : staged.exponents[column]);
                    value = scaled_down(value, exponent);
                    if (SQUARES && floor2 != 0.0) floor2 = scaled_down(scaled_down(floor2, exponent), exponent);
#endif
                    if constexpr (SQUARES)
                        squares[row] = fma(fma(value, value, floor2), staged.w[column], squares[row]);
                    values[j][row] = value;
                }
            add_columns(sums, values, step * T::COLUMNS + i, staged.x);
        }
    }

    template <bool CAREFUL>
    __device__ __forceinline__ void run(const Task<Stored>& task, const Staged& staged) {
        constexpr int STEPS = RUNS_AHEAD<Stored, TRANSPOSED> / T::RUNS;
        const Reader<Stored, TRANSPOSED> reader(task.matrix, task.first_row, task.first_column, task.last_column);
        const int columns = static_cast<int>(task.last_column - task.first_column);
        const int whole = !CAREFUL && reader.whole ? columns / T::STEP / STEPS * STEPS : 0;
        if (whole > 0) {
            T next[STEPS];
#pragma unroll
            for (int i = 0; i < STEPS; ++i)
                reader.read(next[i], i);
#pragma unroll 1
            for (int step = 0; step < whole; step += STEPS) {
                T now[STEPS];
#pragma unroll
                for (int i = 0; i < STEPS; ++i) {
                    now[i] = next[i];
                    if (step + STEPS < whole) reader.read(next[i], step + STEPS + i);
                }
#pragma unroll
                for (int i = 0; i < STEPS; ++i)
                    add<false>(task, now[i], step + i, staged);
                if constexpr (!TRANSPOSED)
                    if (task.hashed.blocks != 0)
#pragma unroll
                        for (int i = 0; i < STEPS; ++i)
                            hashes.add(task.hashed, task.first_row, task.matrix.rows, now[i], step + i);
            }
        }
#pragma unroll 1
        for (int step = whole; step * T::STEP < columns; ++step) {
            T patch;
            reader.read_some(patch, step);
            add<CAREFUL>(task, patch, step, staged);
        }
    }

    __device__ __forceinline__ bool all_finite() const {
        bool all = true;
#if FLOATS
#pragma unroll
        for (int row = 0; row < T::ROWS; ++row) {
            all = all && isfinite(squares[row]);
#pragma unroll
            for (const Number sum : sums[row].at)
                all = all && isfinite(sum);
        }
#endif
        return all;
    }

    // Into arrays that begin at the set's first row in the group, with so many groups.
    __device__ __forceinline__ void write(Index rows, Index groups, Number* to, double* to_squares) {
#pragma unroll
        for (int row = 0; row < T::ROWS; ++row) {
            sums[row].complete();
            if (SQUARES)
                for (int lanes = 1; lanes < 4; lanes *= 2)
                    squares[row] += __shfl_xor_sync(0xFFFFFFFFu, squares[row], lanes);
            const Index at = T::row_of(row) * groups;
            if (T::row_of(row) >= rows) continue;
            atomicAdd(to + at * VECTORS + threadIdx.x % 4 * 2, sums[row].at[0]);
            atomicAdd(to + at * VECTORS + threadIdx.x % 4 * 2 + 1, sums[row].at[1]);
            if (SQUARES && threadIdx.x % 4 == 0) atomicAdd(to_squares + at, squares[row]);
        }
    }
};

// A chunk's vectors: those of column j begin at x + j · step · VECTORS, its weight is w[j · step].
template <int COLUMNS>
__device__ __forceinline__ void stage(Staged& staged, int columns, const Number* x, const double* w, Index step,
                                      const Index* exponents) {
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.x; i < CHUNK * VECTORS / 2; i += THREADS) {
        const int column = i / (VECTORS / 2), v = i % (VECTORS / 2) * 2;
        Run<Number, 2> pair = {};
        if (column < columns) pair.whole = __ldcg(reinterpret_cast<const uint4*>(x + column * step * VECTORS + v));
        staged.x[place_of<COLUMNS>(column, v)] = pair.elements[0];
        staged.x[place_of<COLUMNS>(column, v + 1)] = pair.elements[1];
    }
    for (int column = threadIdx.x; column < CHUNK; column += THREADS) {
        const bool inside = column < columns;
        if (w != nullptr) staged.w[column] = inside ? __ldcg(w + column * step) : 0.0;
        if (exponents != nullptr) staged.exponents[column] = inside ? static_cast<int>(__ldcg(exponents + column)) : 0;
    }
    __syncthreads();
}

// Sets of rows from `first_set` on, so many for the block.
template <Role ROLE, bool TRANSPOSED, typename Stored>
__device__ __forceinline__ void project_sets(Task<Stored>& task, Index first_set, Index last_set, const Staged& staged,
                                             Index groups, Number* to, double* to_squares) {
    typedef Projection<Stored, TRANSPOSED, ROLE> P;
#pragma unroll 1
    for (Index set = first_set + threadIdx.x / 32; set < last_set; set += WARPS) {
        task.first_row = set * P::T::SET;
        P projection(task);
        projection.template run<false>(task, staged);
        if (FLOATS && holds_for_any(!projection.all_finite())) {
            projection = P(task);
            projection.template run<true>(task, staged);
        }
        const Index at = task.first_row * groups;
        projection.write(task.matrix.rows - task.first_row, groups, to + at * VECTORS, to_squares + at);
    }
}
