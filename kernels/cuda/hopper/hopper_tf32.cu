// C = A·B of float32 on Hopper's tensor cores, operands rounded to TF32: hopper_product.cuh says how.
//
// The tensor cores look at the upper 19 bits of an operand and leave out the lower 13, which would cut it towards zero.
// The bulk copies round instead: their maps say that what lies in memory is to arrive as TF32.
//
// B is multiplied along k, or as it lies in a plain A·B (hopper_across.cuh).
#if !TRANSPOSE_B
#define HOPPER_TRANSPOSED
#endif
#define HOPPER_SUM float
#define HOPPER_SUM_REGISTER "+f"
#define HOPPER_MMA "k8.f32.tf32.tf32"
#define HOPPER_MMA_END ", 1, 1"
#include "hopper_word.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    hopper_tf32(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                const __grid_constant__ TensorMap c, int m, int n, int k, int batch, int items_a,
                int items_b EPILOGUE_PARAMETERS PACE_PARAMETER) {
    DYNAMIC_TILES(shared);
#ifdef HOPPER_TRANSPOSED
    multiply_tiles(shared, b, a, c, {n, m, k, batch, items_b, items_a PACE_WORD}, EPILOGUE_OF(m, n));
#else
    multiply_tiles(shared, a, b, c, {m, n, k, batch, items_a, items_b PACE_WORD}, EPILOGUE_OF(m, n));
#endif
}
