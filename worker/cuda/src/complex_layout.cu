// A complex matrix on its way into a real product (Problem.as_real): its rows, with the parts of an element side by
// side, or each element r + is as the block
//
//     r    s
//     -s   r
//
// of two rows, with the signs that conjugates of either operand give it. It is transposed in passing where it is stored
// transposed. Compiled for the type of a part.
#include "common.cuh"
#include "gate.cuh"

constexpr int SIDE = 32, WARPS = 8, THREADS = 32 * WARPS;

struct alignas(2 * sizeof(Element)) Pair {
    Element re, im;
};

// Writes `rows` × `columns` pairs, one row for each or two; `of_a` and `of_b` are -1 for conjugates, else 1. Tiles are
// counted along x, columns fastest; the batch goes on z. Pitches and strides are in pairs, as stored and as written.
template <bool BLOCKS>
__device__ __forceinline__ void arrange(const Pair* __restrict__ from, Pair* __restrict__ to, Index rows, Index columns,
                                        Index pitch_from, Index pitch_to, Index stride_from, Index stride_to,
                                        Index batch, Index transposed, Index of_a, Index of_b) {
    __shared__ Pair tile[SIDE][SIDE + 1];
    const Index across = (columns + SIDE - 1) / SIDE;
    const Index first_row = blockIdx.x / across * SIDE, first_column = blockIdx.x % across * SIDE;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const Element sign_a = static_cast<Element>(of_a), sign_b = static_cast<Element>(of_b);
    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        const Pair* const source = from + item * stride_from;
        for (int line = warp; line < SIDE; line += WARPS) {
            const Index row = first_row + (transposed ? lane : line),
                        column = first_column + (transposed ? line : lane);
            if (row < rows && column < columns)
                tile[row - first_row][column - first_column] =
                    transposed ? source[column * pitch_from + row] : source[row * pitch_from + column];
        }
        __syncthreads();
        for (int line = warp; line < SIDE; line += WARPS) {
            const Index row = first_row + line, column = first_column + lane;
            if (row >= rows || column >= columns) continue;
            const Pair element = tile[line][lane];
            const Element im = sign_b * element.im;
            Pair* const written = to + item * stride_to + (BLOCKS ? 2 * row : row) * pitch_to + column;
            written[0] = {element.re, im};
            if (BLOCKS) written[pitch_to] = {-sign_a * im, sign_a * element.re};
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    complex_rows(const Pair* __restrict__ from, Pair* __restrict__ to, Index rows, Index columns, Index pitch_from,
                 Index pitch_to, Index stride_from, Index stride_to, Index batch, Index transposed, Index of_a,
                 Index of_b GATE) {
    if (GATE_IS_CLOSED) return;
    arrange<false>(from, to, rows, columns, pitch_from, pitch_to, stride_from, stride_to, batch, transposed, of_a,
                   of_b);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    complex_blocks(const Pair* __restrict__ from, Pair* __restrict__ to, Index rows, Index columns, Index pitch_from,
                   Index pitch_to, Index stride_from, Index stride_to, Index batch, Index transposed, Index of_a,
                   Index of_b GATE) {
    if (GATE_IS_CLOSED) return;
    arrange<true>(from, to, rows, columns, pitch_from, pitch_to, stride_from, stride_to, batch, transposed, of_a, of_b);
}
