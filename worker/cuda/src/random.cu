// Operands for benchmarks: element (row, column) follows from the seed and its place alone, so it does not depend on
// how the matrix is padded, nor on the device.
#define TRANSPOSE_A 0
#define TRANSPOSE_B 0
#include "common.cuh"

typedef unsigned long long Word;

constexpr int NORMAL = 0, UNIFORM = 1, INTEGERS = 2;  // else zeros
constexpr int LARGEST_INTEGER = 8;

// SplitMix64's output function: Steele, Lea, Flood, "Fast splittable pseudorandom number generators" (2014).
__device__ __forceinline__ Word mixed(Word state) {
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ull;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBull;
    return state ^ (state >> 31);
}

__device__ __forceinline__ double unit(Word bits) { return (bits >> 11) * 0x1p-53; }  // [0, 1)

__device__ double drawn(Word place, Word key, int distribution) {
    const Word first = mixed(key + (2 * place + 1) * 0x9E3779B97F4A7C15ull);
    if (distribution == UNIFORM) return unit(first);
    if (distribution == INTEGERS)
        return static_cast<double>((first >> 32) * (2 * LARGEST_INTEGER + 1) >> 32) - LARGEST_INTEGER;
    if (distribution != NORMAL) return 0.0;
    const Word second = mixed(key + (2 * place + 2) * 0x9E3779B97F4A7C15ull);
    return sqrt(-2.0 * log(1.0 - unit(first))) * cospi(2.0 * unit(second));  // Box and Muller
}

#if defined(DTYPE_FLOAT8_E4M3)
// The nearest number, ties to even; NaN beyond the largest. In double, where a number's last place is found by its
// exponent; subnormal numbers have the place of the least normal one.
__device__ Element nearest(double value) {
    const double size = fabs(value);
    const int place = max(size > 0.0 ? ilogb(size) : -6, -6) - 3;
    const double steps = rint(ldexp(size, -place));  // 16 where it carries over
    const int bits = steps < 8.0 ? static_cast<int>(steps) : (place + 9) * 8 + static_cast<int>(steps);
    return static_cast<Element>(min(bits, 0x7F) | (value < 0.0 ? 0x80 : 0));
}
#endif

__device__ __forceinline__ Element element_of(double value) {
#if defined(DTYPE_INT8)
    return static_cast<Element>(fmin(fmax(rint(value), -127.0), 127.0));
#elif defined(DTYPE_INT32)
    return static_cast<Element>(fmin(fmax(rint(value), -2147483647.0), 2147483647.0));
#elif defined(DTYPE_FLOAT16) || defined(DTYPE_BFLOAT16)
    return narrow(static_cast<float>(value));
#elif defined(DTYPE_FLOAT8_E4M3)
    return nearest(value);
#else
    return static_cast<Element>(value);
#endif
}

extern "C" __global__ void __launch_bounds__(256)
    draw(Element* matrix, Index rows, Index columns, Index pitch, Word seed, int distribution, double scale) {
    const Word key = mixed(seed);
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * columns; i += step)
        matrix[i / columns * pitch + i % columns] = element_of(drawn(i, key, distribution) * scale);
}
