// Turns rows around, through shared memory; and, where FAULT names one, makes a mistake on the way. With NONE it is
// right.
//
// A block works on one row of each matrix, a thread on one element: by an asynchronous copy into dynamic shared memory,
// from there, reversed, to its neighbour and back, into a static array, and out.
#include "async.cuh"

enum Fault {
    NONE,
    READ_PAST_THE_END,
    READ_BETWEEN_ROWS,
    WRITE_BETWEEN_ROWS,
    READ_PAST_DYNAMIC_SHARED,
    READ_PAST_STATIC_SHARED,
    SHARED_NEVER_WRITTEN,
    REGISTER_NEVER_WRITTEN,
    ELEMENT_LEFT_OUT,
    MISSING_BARRIER,
    MISSING_LAST_BARRIER,
    DIVERGENT_BARRIER,
    EARLY_RETURN,
    SHUFFLE_WITHOUT_ALL,
    MISSING_WAIT,
    MISSING_COMMIT,
    MISALIGNED_COPY,
    COPY_TO_A_REGISTER,
    MISALIGNED_RUN,
    NULL_POINTER,
    WILD_POINTER,
    SIGNED_OVERFLOW,
    NARROW_INDEX
};

struct alignas(8) Pair {
    float at[2];
};

__device__ constexpr bool is(Fault fault) { return fault == FAULT; }

extern "C" __global__ void faulty(const float* from, float* to, long long columns, long long pitch, long long stride,
                                  long long batch) {
    DYNAMIC_SHARED(bytes);
    __shared__ float reversed[THREADS];
    float* const copied = reinterpret_cast<float*>(bytes);
    const int thread = threadIdx.x, last = static_cast<int>(columns) - 1;
    const bool inside = thread <= last;
    float local[2];
    if (is(EARLY_RETURN) && !inside) return;

    for (long long item = 0; item < batch; ++item) {
        const long long place = item * stride + blockIdx.x * pitch;
        const float* const row = from + (is(NARROW_INDEX) ? static_cast<int>(place) : place);
        float* const to_row = to + place;
        copy_async<4>(copied + thread, inside ? row + thread : row, inside);
        if (is(MISALIGNED_COPY)) copy_async<8>(copied + 1, row, true);
        if (is(COPY_TO_A_REGISTER)) copy_async<4>(local, row, true);
        if (!is(MISSING_COMMIT)) commit_copies();
        if (!is(MISSING_WAIT)) wait_copies<0>();
        if (is(DIVERGENT_BARRIER) && !inside)
            __syncthreads();
        else if (!is(MISSING_BARRIER))
            __syncthreads();

        float element = inside ? copied[last - thread] : 0;
        const bool at_end = item + 1 == batch && blockIdx.x + 1 == gridDim.x;
        if (is(READ_PAST_THE_END) && at_end && inside) element += row[thread + 1];
        if (is(READ_BETWEEN_ROWS)) element += row[columns];
        if (is(READ_PAST_DYNAMIC_SHARED)) element += copied[thread + 1];
        if (is(READ_PAST_STATIC_SHARED)) element += (reversed + thread)[1];
        if (is(SHARED_NEVER_WRITTEN)) element += reversed[thread];
        if (is(REGISTER_NEVER_WRITTEN)) element += local[thread % 2];
        if (is(MISALIGNED_RUN)) element += reinterpret_cast<const Pair*>(row + thread / 2)->at[0];
        if (is(NULL_POINTER)) element += *(thread == last ? nullptr : row);
        if (is(WILD_POINTER)) element += row[thread == last ? 1LL << 60 : 0];
        if (is(SIGNED_OVERFLOW)) element += static_cast<float>(2147483647 + thread);
        if (!is(SHUFFLE_WITHOUT_ALL) || inside)
            element = __shfl_xor_sync(0xFFFFFFFFu, __shfl_xor_sync(0xFFFFFFFFu, element, 1), 1);
        reversed[thread] = element;
        if (inside && !(is(ELEMENT_LEFT_OUT) && thread == 3)) to_row[thread] = reversed[thread];
        if (is(WRITE_BETWEEN_ROWS)) to_row[columns] = 0;
        if (!is(MISSING_LAST_BARRIER)) __syncthreads();  // nobody copies the next row over what others still read
    }
}
