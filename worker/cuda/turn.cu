// Transposes a batch of int8 matrices: turned(column, row) = matrix(row, column).
//
// A tile goes through shared memory, so that reads and writes both run along memory. Each thread moves four rows of it.
typedef long long Index;

constexpr int TILE = 32;
constexpr int ROWS = 8;  // of threads in a block

static_assert(TILE % ROWS == 0, "a block's threads go over a tile a whole number of times");

extern "C" __global__ void __launch_bounds__(TILE* ROWS)
    turn(const signed char* __restrict__ matrix, signed char* __restrict__ turned, Index rows, Index columns,
         Index pitch, Index turned_pitch, Index stride, Index turned_stride, Index batch) {
    __shared__ signed char tile[TILE][TILE + 4];  // 4 bytes more: the rows of a column lie in different banks
    const Index across = (columns + TILE - 1) / TILE;
    const Index first_row = blockIdx.x / across * TILE, first_column = blockIdx.x % across * TILE;

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        for (int y = threadIdx.y; y < TILE; y += ROWS) {
            const Index row = first_row + y, column = first_column + threadIdx.x;
            if (row < rows && column < columns) tile[y][threadIdx.x] = matrix[item * stride + row * pitch + column];
        }
        __syncthreads();
        for (int y = threadIdx.y; y < TILE; y += ROWS) {
            const Index row = first_row + threadIdx.x, column = first_column + y;
            if (row < rows && column < columns)
                turned[item * turned_stride + column * turned_pitch + row] = tile[threadIdx.x][y];
        }
        __syncthreads();  // nobody writes the next item's tile while others still read this one
    }
}
