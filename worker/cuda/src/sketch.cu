// Projections of a product and its operands on random vectors: Y = B·x, P = A·Y and S = C·x, with what bounds their
// rounding, and the comparison of S with P (docs/decisions/0017). One launch does it all.
//
// The work is cut into units, which blocks take in order until none is left. A unit waits for what it needs of units
// before it, which other blocks have taken by then, so none waits forever. No block idles between one kind of unit and
// the next, and nothing but the random vectors has to be there before a matrix is read.
//
// A unit of a projection keeps CHUNK columns' vectors in shared memory and goes over sets of rows. Sums of chunks meet
// in atomic additions.
#include "sketch_columns.cuh"
#include "sketch_project.cuh"
#include "sketch_verdict.cuh"

constexpr int RESIDENT = TENSOR ? 2 : 1;  // blocks of a multiprocessor

// What a unit does: a chunk of columns of one group, for a range of sets of rows of one item.
struct Part {
    Index item, group, first_column, last_column, first_set, last_set;

    // `restart`: each group has the same `columns` columns; else it has `width` of them.
    __device__ __forceinline__ Part(Index unit, Index of_item, Index columns, Index width, Index groups, bool restart,
                                    Index sets, Index sets_each) {
        const Index each = (width + CHUNK - 1) / CHUNK, at = unit % of_item, chunk = at % (each * groups);
        item = unit / of_item;
        group = chunk / each;
        const Index begin = restart ? 0 : group * width, end = min(begin + width, columns);
        first_column = begin + chunk % each * CHUNK;
        last_column = min(first_column + CHUNK, end);
        first_set = at / (each * groups) * sets_each;
        last_set = min(first_set + sets_each, sets);
    }
    __device__ __forceinline__ int columns() const { return static_cast<int>(last_column - first_column); }
};

template <typename T>
__device__ __forceinline__ Index sets_of(Index rows) {
    return (rows + T::SET - 1) / T::SET;
}

// How to hash a matrix of `blocks` blocks, 0 to take no digest, from a row and a byte of it on.
__device__ __forceinline__ Hashed hashed(Word* sums, Index blocks, Index first_row, Index row_bytes, Index column_bytes,
                                         const Word* keys) {
    const int of_row = static_cast<int>(row_bytes / xxh3::BLOCK);
    const Index first = first_row * of_row + column_bytes / xxh3::BLOCK;
    return {sums, keys, static_cast<int>(blocks), static_cast<int>(first), of_row};
}

// The vectors of a part's columns, once they are there.
template <int COLUMNS>
__device__ __forceinline__ void stage_columns(const Check& check, const Part& part, Staged& staged) {
    const Index of_b = only_if(check.items_b > 1, part.item), of_x = only_if(check.items_x > 1, part.item);
    const Index strip = part.first_column / STRIP + threadIdx.x;
    if (strip * STRIP < part.last_column) wait_for(check.strips_ready + of_b * check.strips + strip, 1u);
    __syncthreads();
    const Index at = of_x * check.n + part.first_column;
    stage<COLUMNS>(staged, part.columns(), check.x + at * VECTORS, FLOATS ? check.w + at : nullptr, 1,
                   SCALED ? check.exponents + of_b * check.n + part.first_column : nullptr);
}

// Begins with the last rows: those `columns` has read last may still be in the cache.
__device__ __forceinline__ void project_b(const Check& check, Index unit, Staged& staged, const Word* keys) {
    typedef Patch<Element, TRANSPOSE_B> T;
    const Part part(check.units_b - 1 - unit, check.units_b / check.items_x, check.n, check.width, check.groups, false,
                    sets_of<T>(check.k), check.sets_each_b);
    stage_columns<T::COLUMNS>(check, part, staged);
    Task<Element> task = {
        {check.b + part.item * check.stride_b, check.k, check.n, check.ldb}, part.first_column, part.last_column};
    task.floor2 = check.floor2;
    if (part.item < check.items_b)
        task.hashed = hashed(check.sums_b, check.blocks_b, part.item * check.k, check.n * sizeof(Element),
                             part.first_column * sizeof(Element), keys);
    const Index to = part.item * check.k * check.groups + part.group;
    project_sets<Role::B, TRANSPOSE_B>(task, part.first_set, part.last_set, staged, check.groups,
                                       check.y + to * VECTORS, check.z + to);
    raise(check.progress + B_DONE);
}

__device__ __forceinline__ void project_c(const Check& check, Index unit, Staged& staged, const Word* keys) {
    typedef Patch<Output, false> T;
    const Part part(unit, check.units_c / check.batch, check.n, check.width, check.groups, false, sets_of<T>(check.m),
                    check.sets_each_c);
    if (SCALED && threadIdx.x == 0) wait_for(check.progress + ROWS_DONE, static_cast<Word>(check.units_of_rows));
    stage_columns<T::COLUMNS>(check, part, staged);
    Task<Output> task = {
        {check.c + part.item * check.stride_c, check.m, check.n, check.ldc}, part.first_column, part.last_column};
    task.row_peaks = check.row_peaks + only_if(check.items_a > 1, part.item) * check.m;
    task.bad = check.odd_rows + part.item * check.m;
    task.hashed = hashed(check.sums_c, check.blocks_c, part.item * check.m, check.n * sizeof(Output),
                         part.first_column * sizeof(Output), keys);
    const Index to = part.item * check.m * check.groups + part.group;
    project_sets<Role::C, false>(task, part.first_set, part.last_set, staged, check.groups, check.s + to * VECTORS,
                                 check.r + to);
    raise(check.progress + C_DONE);
}

__device__ __forceinline__ void project_a(const Check& check, Index unit, Staged& staged, const Word* keys) {
    typedef Patch<Element, TRANSPOSE_A> T;
    const Part part(unit, check.units_a / check.batch, check.k, check.k, check.groups, true, sets_of<T>(check.m),
                    check.sets_each_a);
    const Index of_a = only_if(check.items_a > 1, part.item);
    if (threadIdx.x == 0) {
        wait_for(check.progress + B_DONE, static_cast<Word>(check.units_b));
        if (SCALED) wait_for(check.progress + ROWS_DONE, static_cast<Word>(check.units_of_rows));
    }
    __syncthreads();
    const Index at = (only_if(check.items_x > 1, part.item) * check.k + part.first_column) * check.groups + part.group;
    stage<T::COLUMNS>(staged, part.columns(), check.y + at * VECTORS, FLOATS ? check.z + at : nullptr, check.groups,
                      nullptr);
    Task<Element> task = {
        {check.a + part.item * check.stride_a, check.m, check.k, check.lda}, part.first_column, part.last_column};
    task.row_peaks = check.row_peaks + of_a * check.m;
    task.bad = check.bad_rows + part.item * check.m;
    task.floor2 = check.floor2;
    if (part.item < check.items_a && part.group == 0)
        task.hashed = hashed(check.sums_a, check.blocks_a, part.item * check.m, check.k * sizeof(Element),
                             part.first_column * sizeof(Element), keys);
    const Index to = part.item * check.m * check.groups + part.group;
    project_sets<Role::A, TRANSPOSE_A>(task, part.first_set, part.last_set, staged, check.groups,
                                       check.p + to * VECTORS, check.q + to);
    raise(check.progress + A_DONE);
}

// Of a matrix whose blocks are hashed, once its projection is done.
__device__ __forceinline__ void digest(const Check& check, Progress done, Index units, const Word* sums, Index blocks,
                                       Index unit, const Word* keys, Word* parts) {
    if (threadIdx.x == 0) wait_for(check.progress + done, static_cast<Word>(units));
    __syncthreads();
    digest_parts(sums, blocks, unit * PARTS, keys, parts);
}

__device__ __forceinline__ void judge(const Check& check, Index unit) {
    if (threadIdx.x == 0) {
        wait_for(check.progress + C_DONE, static_cast<Word>(check.units_c));
        wait_for(check.progress + A_DONE, static_cast<Word>(check.units_a));
    }
    __syncthreads();
    compare(check, unit);
}

// Whether a unit is one of the next `count`; else it is counted from behind them.
__device__ __forceinline__ bool is_of(Index& unit, Index count) {
    if (unit < count) return true;
    unit -= count;
    return false;
}

union Shared {
    Staged staged;
    ColumnsShared columns;
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) sketch(const Check check) {
    __shared__ Shared shared;
    __shared__ Word keys[KEYS];
    __shared__ Index taken;
    fetch_keys(keys);
    for (;;) {
        __syncthreads();  // what is shared is read no more
        if (threadIdx.x == 0) taken = static_cast<Index>(atomicAdd(check.progress + TAKEN, Word{1}));
        __syncthreads();
        Index unit = taken;
#if SCALED
        if (is_of(unit, check.units_of_rows)) {
            rows(check, unit, shared.columns);
            continue;
        }
#endif
        if (is_of(unit, check.units_of_columns))
            columns(check, unit, shared.columns);
        else if (is_of(unit, check.units_b))
            project_b(check, unit, shared.staged, keys);
        else if (is_of(unit, check.units_c))
            project_c(check, unit, shared.staged, keys);
        else if (is_of(unit, check.units_a))
            project_a(check, unit, shared.staged, keys);
        else if (is_of(unit, check.digests_b))
            digest(check, B_DONE, check.units_b, check.sums_b, check.blocks_b, unit, keys, check.parts_b);
        else if (is_of(unit, check.digests_c))
            digest(check, C_DONE, check.units_c, check.sums_c, check.blocks_c, unit, keys, check.parts_c);
        else if (is_of(unit, check.units_of_verdict))
            judge(check, unit);
        else if (is_of(unit, check.digests_a))
            digest(check, A_DONE, check.units_a, check.sums_a, check.blocks_a, unit, keys, check.parts_a);
        else
            return;
    }
}
