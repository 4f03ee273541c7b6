// C = A·B of 8-bit floats (E4M3) on Hopper's tensor cores, in float32: hopper_product.cuh says how.
//
// Parameter PROMOTE: 0, sums stay in the tensor cores, which keep about 14 bits of them; 1, those of each 128 steps of
// k are added up in float32, as hopper_promoted.cuh says.
//
// SCALE_COLUMNS: where operands have block scales, how many columns of B share one (hopper_scales.cuh).
//
// Of sums that stay, B is multiplied along k, or as it lies in a plain A·B (hopper_across.cuh).
#if !TRANSPOSE_B
#define HOPPER_TRANSPOSED
#endif
#define HOPPER_SUM float
#define HOPPER_SUM_REGISTER "+f"
#define HOPPER_MMA "k32.f32.e4m3.e4m3"
#define HOPPER_MMA_END ", 1, 1"
#include "hopper_word.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
    hopper_fp8(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
               const __grid_constant__ TensorMap c, int m, int n, int k, int batch, int items_a,
               int items_b EPILOGUE_PARAMETERS
#ifdef SCALE_COLUMNS
               ,
               const __grid_constant__ Scales scales
#endif
                   PACE_PARAMETER) {
    DYNAMIC_TILES(shared);
#ifdef HOPPER_TRANSPOSED
    multiply_tiles(shared, b, a, c, {n, m, k, batch, items_b, items_a PACE_WORD}, EPILOGUE_OF(m, n));
#elif defined(SCALE_COLUMNS)
    multiply_tiles(shared, a, b, c, {m, n, k, batch, items_a, items_b, scales PACE_WORD}, EPILOGUE_OF(m, n));
#else
    multiply_tiles(shared, a, b, c, {m, n, k, batch, items_a, items_b PACE_WORD}, EPILOGUE_OF(m, n));
#endif
}
