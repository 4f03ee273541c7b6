// The epilogue of a product: D = alpha·A·B + beta·C + bias, in float32, of sums that are still in registers; rounded
// once, to D's type (docs/decisions/0064). C and the bias are of D's type. Macros: EPILOGUE compiles it in, HAS_ADDEND
// adds C, HAS_BIAS adds a bias; OUTPUT_FLOAT32, OUTPUT_BFLOAT16 and OUTPUT_FLOAT16 say D's type where it is not the
// type that the operands give a product.
//
// With HAS_ACTIVATION the result so far is Z. It is stored too, and D = activation(Z) is computed from Z as it is
// stored (docs/decisions/0075).
#pragma once

#include "activations.cuh"
#include "common.cuh"
#include "half.cuh"
#include "hopper.cuh"

#if defined(OUTPUT_FLOAT32)
typedef float Delivered;
#elif defined(OUTPUT_BFLOAT16) || defined(OUTPUT_FLOAT16)
typedef unsigned short Delivered;
#else
typedef Product Delivered;
#endif

#ifdef EPILOGUE

// Two elements next to each other.
struct alignas(2 * sizeof(Delivered)) DeliveredPair {
    Delivered at[2];
};

__device__ __forceinline__ float as_float(Delivered value) {
#if defined(OUTPUT_BFLOAT16)
    return __uint_as_float(static_cast<unsigned int>(value) << 16);
#elif defined(OUTPUT_FLOAT16)
    return float_of_half(value);
#elif defined(OUTPUT_FLOAT32) || defined(DTYPE_FLOAT8_E4M3)
    return value;
#else
    return widen(value);
#endif
}

// The kernel's arguments for it. A bias has a step of 0 along the axis on which it does not change; the whole batch
// shares one.
struct Epilogue {
    enum { IS_THERE = true };
    const Delivered *c, *bias;
    Index ldc, stride_c, bias_row_step, bias_column_step;
    float alpha, beta;
    int rows, columns;  // of C
#ifdef HAS_ACTIVATION
    const TensorMap& z;
#endif

    // Applies it to the sums of two adjacent columns. The second may lie outside C.
    __device__ __forceinline__ void add(float& first, float& second, int item, int row, int column) const {
        first *= alpha;
        second *= alpha;
        if (row >= rows || column >= columns) return;
        const bool has_second = column + 1 < columns;
#ifdef HAS_ADDEND
        const Delivered* const from = c + item * stride_c + row * ldc + column;
        DeliveredPair pair = {};
        if (has_second && reinterpret_cast<unsigned long long>(from) % sizeof pair == 0) {
            pair = *reinterpret_cast<const DeliveredPair*>(from);
        } else {
            pair.at[0] = from[0];
            if (has_second) pair.at[1] = from[1];
        }
        first = fmaf(beta, as_float(pair.at[0]), first);
        second = fmaf(beta, as_float(pair.at[1]), second);
#endif
#ifdef HAS_BIAS
        const Delivered* const added = bias + row * bias_row_step + column * bias_column_step;
        first += as_float(__ldg(added));
        if (has_second) second += as_float(__ldg(added + bias_column_step));
#endif
    }
};

__device__ __forceinline__ float factor(int bits) { return __uint_as_float(static_cast<unsigned int>(bits)); }

#define EPILOGUE_PARAMETERS                                                                           \
    , const Delivered *addend, const Delivered *bias, Index ldc, Index stride_c, Index bias_row_step, \
        Index bias_column_step, int alpha_bits, int beta_bits Z_PARAMETER
#define EPILOGUE_OF(m, n) \
    {addend, bias, ldc, stride_c, bias_row_step, bias_column_step, factor(alpha_bits), factor(beta_bits), m, n AND_Z}
#ifdef HAS_ACTIVATION
#define Z_PARAMETER , const __grid_constant__ TensorMap z
#define AND_Z , z
#else
#define Z_PARAMETER
#define AND_Z
#endif

#else

struct Epilogue {
    enum { IS_THERE = false };
    template <typename Sum>
    __device__ __forceinline__ void add(Sum&, Sum&, int, int, int) const {}
};
#define EPILOGUE_PARAMETERS
#define EPILOGUE_OF(m, n) \
    {                     \
    }

#endif
