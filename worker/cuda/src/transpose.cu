// Transposes a batch of matrices: transposed(column, row) = matrix(row, column). Elements of ITEM_BYTES (1, 2, 4 or 8)
// are only moved, a tile at a time (transposed_tiles.cuh).
#include "dependent_launch.cuh"
#include "gate.cuh"
#include "transposed_tiles.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    transpose(const Element* __restrict__ matrix, Element* __restrict__ transposed, Index rows, Index columns,
              Index pitch, Index transposed_pitch, Index stride, Index transposed_stride, Index batch GATE) {
    wait_on_dependency();
    if (GATE_IS_CLOSED) return;  // before the next launch may begin, which looks at the gate without waiting
    __shared__ __align__(16) Element tile[TILE * TILE];
    launch_dependents();
    const Index across = (columns + TILE - 1) / TILE;
    const Index row = blockIdx.x / across * TILE, column = blockIdx.x % across * TILE;
    const int tall = at_most_a_tile(rows - row), wide = at_most_a_tile(columns - column);

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        read_tile(tile, matrix + item * stride + row * pitch + column, pitch, tall, wide);
        __syncthreads();
        write_tile(tile, transposed + item * transposed_stride + column * transposed_pitch + row, transposed_pitch,
                   tall, wide);
        __syncthreads();  // nobody writes the next item's tile while others still read this one
    }
}
