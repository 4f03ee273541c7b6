// The fingerprint of a part of a matrix, added to *total: the sum of r(row)·c(column)·bits modulo 2^64. The twin of
// worker/check/fingerprint.py, which says what it is for.
//
// A block has THREADS·COLUMNS columns and ROWS rows of one item, and goes on to other items. Weights of its rows are
// in shared memory, those of its columns in registers, so an element costs a load and one multiply-add.
using Word = unsigned long long;

#if ITEM_BYTES == 1
using Element = unsigned char;
#elif ITEM_BYTES == 2
using Element = unsigned short;
#elif ITEM_BYTES == 4
using Element = unsigned int;
#else
using Element = Word;
#endif

constexpr int THREADS = 256, COLUMNS = 4, ROWS = 64;
constexpr Word STEP = 0x9E3779B97F4A7C15ull, COLUMN_SEED = 0xD1B54A32D192ED03ull;

__device__ Word weight(Word seed, Word index) {
    Word z = (index + 1) * STEP + seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return (z ^ (z >> 31)) | 1;
}

// `rows_of_item`: from one item to the next, in rows of the whole matrix; `stride`: the same in elements that lie here.
extern "C" __global__ void __launch_bounds__(THREADS)
    fingerprint(const Element* __restrict__ part, long long pitch, long long stride, long long rows, long long columns,
                long long items, long long rows_of_item, long long row, long long column, long long seed, Word* total) {
    __shared__ Word weights[ROWS], sums[THREADS / 32];
    const long long first_row = static_cast<long long>(blockIdx.y) * ROWS;
    const long long first_column = static_cast<long long>(blockIdx.x) * THREADS * COLUMNS + threadIdx.x;
    const int height = static_cast<int>(min(static_cast<long long>(ROWS), rows - first_row));
    Word sum = 0;
    for (long long item = blockIdx.z; item < items; item += gridDim.z) {
        __syncthreads();
        const Word first = row + item * rows_of_item + first_row;
        if (threadIdx.x < height) weights[threadIdx.x] = weight(seed, first + threadIdx.x);
        __syncthreads();
        const Element* lines = part + item * stride + first_row * pitch;
        Word of_columns[COLUMNS] = {};
        for (int i = 0; i < height; ++i) {
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) {
                const long long at = first_column + j * THREADS;
                if (at < columns) of_columns[j] += weights[i] * lines[i * pitch + at];
            }
        }
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            sum += of_columns[j] * weight(seed ^ COLUMN_SEED, column + first_column + j * THREADS);
    }
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < THREADS / 32; ++warp)
            sum += sums[warp];
        atomicAdd(total, sum);
    }
}
