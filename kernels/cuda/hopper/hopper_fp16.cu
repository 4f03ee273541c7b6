// C = A·B of float16 on Hopper's tensor cores: hopper_product.cuh says how.
#define HOPPER_TYPE "f16"
#define HOPPER_NARROW "cvt.rn.f16x2.f32"
#include "hopper_half.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    hopper_fp16(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                const __grid_constant__ TensorMap c C_ROW_MAP, int m, int n, int k, int batch, int items_a,
                int items_b EPILOGUE_PARAMETERS GROUP_PARAMETERS PACE_PARAMETER CUT_PARAMETERS) {
    DYNAMIC_TILES(shared);
    multiply_tiles(shared, a, b, c, {m, n, k, batch, items_a, items_b C_ROW_AND_GROUPS PACE_WORD CUT_WORDS},
                   EPILOGUE_OF(m, n));
}
