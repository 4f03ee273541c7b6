// C = A·B of int8 on Hopper's tensor cores, in int32 that wraps: hopper_product.cuh says how.
//
// B is multiplied along k, or as it lies in a plain A·B (hopper_across.cuh).
#if !TRANSPOSE_B
#define HOPPER_TRANSPOSED
#endif
#define HOPPER_SUM int
#define HOPPER_SUM_REGISTER "+r"
#define HOPPER_MMA "k32.s32.s8.s8"
#define HOPPER_MMA_END ""
#include "hopper_word.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    hopper_int8(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                const __grid_constant__ TensorMap c, int m, int n, int k, int batch, int items_a,
                int items_b PACE_PARAMETER) {
    DYNAMIC_TILES(shared);
#ifdef HOPPER_TRANSPOSED
    multiply_tiles(shared, b, a, c, {n, m, k, batch, items_b, items_a PACE_WORD}, {});
#else
    multiply_tiles(shared, a, b, c, {m, n, k, batch, items_a, items_b PACE_WORD}, {});
#endif
}
