// Projections of a product and its operands on random vectors: Y = B·x, P = A·Y and S = C·x, with what bounds their
// rounding (docs/decisions/0017). One launch each, in this order; `columns` or `draw` goes before (sketch_columns.cuh).
//
// A block keeps CHUNK columns' vectors in shared memory and goes over sets of rows. Sums of chunks meet in atomic
// additions. The last block of a range of rows compares S with P.
#include "sketch_columns.cuh"
#include "sketch_project.cuh"

constexpr int RESIDENT = TENSOR ? 2 : 1;  // blocks of a multiprocessor

// What a block does: a chunk of columns of one group, for a range of sets of rows.
struct Part {
    Index group, first_column, last_column, range, first_set, last_set, chunks;

    // `restart`: each group has the same `columns` columns; else it has `width` of them.
    __device__ __forceinline__ Part(Index block, Index columns, Index width, Index groups, bool restart, Index sets,
                                    Index sets_each) {
        const Index each = (width + CHUNK - 1) / CHUNK, chunk = block % (each * groups);
        chunks = each * groups;
        group = chunk / each;
        const Index begin = restart ? 0 : group * width, end = min(begin + width, columns);
        first_column = begin + chunk % each * CHUNK;
        last_column = min(first_column + CHUNK, end);
        range = block / chunks;
        first_set = range * sets_each;
        last_set = min(first_set + sets_each, sets);
    }
};

template <typename T>
__device__ __forceinline__ Index sets_of(Index rows) {
    return (rows + T::SET - 1) / T::SET;
}

__device__ __forceinline__ Index only_if(bool many, Index item) { return many ? item : 0; }

// Begins with the last rows: those `columns` has read last may still be in the cache.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) project_b(const Check check) {
    typedef Patch<Element, TRANSPOSE_B> T;
    __shared__ Staged staged;
    const Part part(gridDim.x - 1 - blockIdx.x, check.n, check.width, check.groups, false, sets_of<T>(check.k),
                    check.sets_each_b);
    const int columns = static_cast<int>(part.last_column - part.first_column);
    for (Index item = blockIdx.z; item < check.items_x; item += gridDim.z) {
        const Index at = item * check.n + part.first_column;
        const Index* const exponents =
            SCALED ? check.exponents + only_if(check.items_b > 1, item) * check.n + part.first_column : nullptr;
        __syncthreads();
        stage<T::COLUMNS>(staged, columns, check.x + at * VECTORS, FLOATS ? check.w + at : nullptr, 1, exponents);
        __syncthreads();
        Task<Element> task = {
            {check.b + item * check.stride_b, check.k, check.n, check.ldb}, part.first_column, part.last_column, 0};
        task.floor2 = check.floor2;
        const Index to = item * check.k * check.groups + part.group;
        project_sets<Role::B, TRANSPOSE_B>(task, part.first_set, part.last_set, staged, check.groups,
                                           check.y + to * VECTORS, check.z + to);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) project_a(const Check check) {
    typedef Patch<Element, TRANSPOSE_A> T;
    __shared__ Staged staged;
    const Part part(blockIdx.x, check.k, check.k, check.groups, true, sets_of<T>(check.m), check.sets_each_a);
    const int columns = static_cast<int>(part.last_column - part.first_column);
    for (Index item = blockIdx.z; item < check.batch; item += gridDim.z) {
        const Index of_x = only_if(check.items_x > 1, item), of_a = only_if(check.items_a > 1, item);
        const Index at = (of_x * check.k + part.first_column) * check.groups + part.group;
        __syncthreads();
        stage<T::COLUMNS>(staged, columns, check.y + at * VECTORS, FLOATS ? check.z + at : nullptr, check.groups,
                          nullptr);
        __syncthreads();
        Task<Element> task = {
            {check.a + item * check.stride_a, check.m, check.k, check.lda}, part.first_column, part.last_column, 0};
        task.row_peaks = check.row_peaks + of_a * check.m;
        task.bad = check.bad_rows + item * check.m;
        task.floor2 = check.floor2;
        const Index to = item * check.m * check.groups + part.group;
        project_sets<Role::A, TRANSPOSE_A>(task, part.first_set, part.last_set, staged, check.groups,
                                           check.p + to * VECTORS, check.q + to);
    }
}

// Of a row in a group, whose first is `at`: the largest difference of projections.
__device__ __forceinline__ void compare(const Check& check, Index at, Index row) {
#if FLOATS
    double largest = 0.0;
    for (int v = 0; v < VECTORS; ++v) {
        const double p = __ldcg(check.p + at * VECTORS + v);
        double difference = __ldcg(check.s + at * VECTORS + v) - p;
        difference = difference < 0.0 ? -difference : difference;
        if (difference != difference) difference = of_bits(INFINITE_BITS);
        largest = max(largest, difference);
    }
    check.difference[at] = largest;
#else
    bool wrong = false;
    for (int v = 0; v < VECTORS; ++v) {
        const Word difference = __ldcg(check.s + at * VECTORS + v) - __ldcg(check.p + at * VECTORS + v);
        wrong = wrong || (check.wraps ? static_cast<unsigned int>(difference) : difference) != 0;
    }
    if (wrong) check.bad_rows[row] = 1;
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) project_c(const Check check) {
    typedef Patch<Product, false> T;
    __shared__ Staged staged;
    const Part part(blockIdx.x, check.n, check.width, check.groups, false, sets_of<T>(check.m), check.sets_each_c);
    const int columns = static_cast<int>(part.last_column - part.first_column);
    for (Index item = blockIdx.z; item < check.batch; item += gridDim.z) {
        const Index of_a = only_if(check.items_a > 1, item), of_b = only_if(check.items_b > 1, item);
        const Index of_x = only_if(check.items_x > 1, item);
        const Number* const x = check.x + (of_x * check.n + part.first_column) * VECTORS;
        __syncthreads();
        const double* const w = FLOATS ? check.w + of_x * check.n + part.first_column : nullptr;
        stage<T::COLUMNS>(staged, columns, x, w, 1,
                          SCALED ? check.exponents + of_b * check.n + part.first_column : nullptr);
        __syncthreads();
        Task<Product> task = {
            {check.c + item * check.stride_c, check.m, check.n, check.ldc}, part.first_column, part.last_column, 0};
        task.row_peaks = check.row_peaks + of_a * check.m;
        task.bad_rows = check.bad_rows + item * check.m;
        task.odd = check.odd_columns + item * check.n;
        task.w = check.w + of_x * check.n;
        const Index first = item * check.m * check.groups;
        project_sets<Role::C, false>(task, part.first_set, part.last_set, staged, check.groups,
                                     check.s + (first + part.group) * VECTORS, check.r + first + part.group);
        const Index ranges = gridDim.x / part.chunks;
        unsigned int* const counter = check.counters + check.counters_c + item * ranges + part.range;
        if (!comes_last(counter, part.chunks, staged.last)) continue;
        const Index last_row = min(part.last_set * T::SET, check.m);
        for (Index i = part.first_set * T::SET * check.groups + threadIdx.x; i < last_row * check.groups; i += THREADS)
            compare(check, first + i, item * check.m + i / check.groups);
    }
}
