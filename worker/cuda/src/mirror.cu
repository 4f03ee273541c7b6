// Makes an n × n matrix its own transpose: of a symmetric product one triangle is computed, and what lies on the other
// side of the diagonal is copied from there, each element once. Elements of ITEM_BYTES (2, 4 or 8) are only moved, a
// tile at a time (transposed_tiles.cuh).
#include "dependent_launch.cuh"
#include "transposed_tiles.cuh"

// Which of the tiles on and below the diagonal a block has, counted row by row.
struct Place {
    Index row, column;

    __device__ __forceinline__ explicit Place(Index index) {
        row = static_cast<Index>((sqrt(8.0 * static_cast<double>(index) + 1.0) - 1.0) / 2.0);
        while (row * (row + 1) / 2 > index)
            --row;
        while ((row + 1) * (row + 2) / 2 <= index)
            ++row;
        column = index - row * (row + 1) / 2;
    }
};

// A tile on the diagonal has both triangles.
__device__ __forceinline__ void mirror_within(const Element* tile, Element* first, Index pitch, int side, bool lower) {
#pragma unroll 1
    for (int index = threadIdx.x; index < side * side; index += THREADS) {
        const int row = index / side, column = index % side;
        if (lower ? row < column : row > column) first[row * pitch + column] = tile[place(column, row)];
    }
}

// `from_lower`: what lies below the diagonal is right; else what lies above it.
extern "C" __global__ void __launch_bounds__(THREADS) mirror(Element* c, Index n, Index pitch, Index from_lower) {
    __shared__ __align__(16) Element tile[TILE * TILE];
    const Place at(blockIdx.x);
    const Index down = at.row * TILE, across = at.column * TILE;
    const Index row = from_lower ? down : across, column = from_lower ? across : down;
    const int tall = at_most_a_tile(n - row), wide = at_most_a_tile(n - column);
    wait_on_dependency();
    launch_dependents();
    read_tile(tile, c + row * pitch + column, pitch, tall, wide);
    __syncthreads();
    if (down == across)
        mirror_within(tile, c + row * pitch + column, pitch, tall, from_lower);
    else
        write_tile(tile, c + column * pitch + row, pitch, tall, wide);
}
