// A tile for the block, for each warp in it, and for each thread in that.
//
// The lanes of a warp share a compact part of the block's tile, so that together they read few elements of shared
// memory for many multiply-adds: a 64×32 warp tile reads 96 for 2048. Two pairs of tiles take turns in shared memory:
// while one is multiplied, the next is on its way from memory to registers, and the block waits once per tile, not
// twice.
#include "tile_groups.cuh"
#include "warp_tiles.cuh"

using LoaderA = TileLoader<BLOCK_M, BLOCK_K, THREADS, A_ALONG_K>;
using LoaderB = TileLoader<BLOCK_N, BLOCK_K, THREADS, B_ALONG_K>;
constexpr int PAIR = LoaderA::WORDS + LoaderB::WORDS;  // accumulators of one tile of A and one of B
constexpr int HELD = LoaderA::SHARE * LoaderA::COUNT + LoaderB::SHARE * LoaderB::COUNT;
constexpr int BLOCKS = blocks_per_multiprocessor(
    THREADS, THREAD_M* THREAD_N, words_beside(THREAD_M + THREAD_N, HELD + 16 + (THREAD_M * THREAD_N > 16 ? 0 : 16)));

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    warp_tiled(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
               Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c,
               Index batch GROUP_PARAMETERS) {
    DYNAMIC_SHARED(shared);
    Accumulator* const tiles = reinterpret_cast<Accumulator*>(shared);
    const ThreadTile place(threadIdx.x);
    const Tile tile = FIND_TILE(BLOCK_M, BLOCK_N);
    const Index rows = m - tile.row, columns = n - tile.column;
    const bool aligned_a = is_aligned<LoaderA::COUNT>(a, lda, stride_a);
    const bool aligned_b = is_aligned<LoaderB::COUNT>(b, ldb, stride_b);
    const bool aligned_c = is_aligned<GROUP>(c, ldc, stride_c);
    const bool interior = rows >= BLOCK_M && columns >= BLOCK_N && aligned_a && aligned_b;
    const Index whole = interior ? k - k % BLOCK_K : 0;  // up to here no element needs a guard

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        LoaderA carrier_a(a + item * stride_a + tile.row * row_step_a(lda), lda, rows, threadIdx.x, aligned_a);
        LoaderB carrier_b(b + item * stride_b + tile.column * column_step_b(ldb), ldb, columns, threadIdx.x, aligned_b);
        const auto fetch = [&](Index depth) {
            if (depth < whole) {
                carrier_a.template fetch<false>(BLOCK_K);
                carrier_b.template fetch<false>(BLOCK_K);
            } else {
                carrier_a.template fetch<true>(k - depth);
                carrier_b.template fetch<true>(k - depth);
            }
        };
        Sums sums;
        fetch(0);
        Accumulator* pair = tiles;
        __syncthreads();  // the product before may still be reading
        carrier_a.put(pair);
        carrier_b.put(pair + LoaderA::WORDS);
        for (Index depth = 0; depth < k; depth += BLOCK_K) {
            const bool more = depth + BLOCK_K < k;
            if (more) fetch(depth + BLOCK_K);
            __syncthreads();
#pragma unroll 4
            for (int step = 0; step < BLOCK_K; ++step) {
                Fragments fragments;
                fragments.read(pair + step * LoaderA::ROW, pair + LoaderA::WORDS + step * LoaderB::ROW, place);
                sums.add(fragments);
            }
            pair = pair == tiles ? tiles + PAIR : tiles;
            if (more) {
                carrier_a.put(pair);
                carrier_b.put(pair + LoaderA::WORDS);
            }
        }
        sums.write(c + item * stride_c + tile.row * ldc + tile.column, ldc, rows, columns, place, aligned_c);
    }
}
