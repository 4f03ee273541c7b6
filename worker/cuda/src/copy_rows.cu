// Copies rows of words between two places of different pitch, where a word on the device says so: what the driver's own
// copies cannot be told.
#include "gate.cuh"

typedef long long Index;

constexpr int THREADS = 256;

// A block takes rows in turn, a thread words of a row.
extern "C" __global__ void __launch_bounds__(THREADS)
    copy_rows(const unsigned int* __restrict__ source, unsigned int* __restrict__ to, Index rows, Index words,
              Index pitch, Index to_pitch GATE) {
    if (GATE_IS_CLOSED) return;
    for (Index row = blockIdx.x; row < rows; row += gridDim.x)
        for (Index word = threadIdx.x; word < words; word += THREADS)
            to[row * to_pitch + word] = source[row * pitch + word];
}
