// Several blocks share one tile of C, each taking a part of k.
//
// A product of few tiles and a long k, such as 16×8192 times 8192×16, has work for a few blocks only, while the other
// multiprocessors idle. Here k is cut into as many parts as there are blocks for each tile. Partial sums go to a
// workspace in memory; the block that comes last adds all of them up, always in the order of k, so that the same
// operands give the same bits whichever block that is. Inside, it is `warp_tiled`.
#include "warp_tiles.cuh"

using LoaderA = TileLoader<BLOCK_M, BLOCK_K, THREADS, A_ALONG_K>;
using LoaderB = TileLoader<BLOCK_N, BLOCK_K, THREADS, B_ALONG_K>;
constexpr int PAIR = LoaderA::WORDS + LoaderB::WORDS;  // accumulators of one tile of A and one of B
constexpr int HELD = LoaderA::SHARE * LoaderA::COUNT + LoaderB::SHARE * LoaderB::COUNT;
constexpr int BLOCKS =
    blocks_per_multiprocessor(THREADS, THREAD_M* THREAD_N, words_beside(THREAD_M + THREAD_N, HELD + 40));

// Adds this block's part of k, `depths` steps from the carriers' present place on, to `sums`.
__device__ __forceinline__ void multiply(Sums& sums, LoaderA& carrier_a, LoaderB& carrier_b, Accumulator* tiles,
                                         const ThreadTile& place, Index depths, bool interior) {
    const auto fetch = [&](Index depth) {
        if (interior && depth + BLOCK_K <= depths) {
            carrier_a.template fetch<false>(BLOCK_K);
            carrier_b.template fetch<false>(BLOCK_K);
        } else {
            carrier_a.template fetch<true>(depths - depth);
            carrier_b.template fetch<true>(depths - depth);
        }
    };
    Accumulator* pair = tiles;
    fetch(0);
    __syncthreads();  // the product before may still be reading
    carrier_a.put(pair);
    carrier_b.put(pair + LoaderA::WORDS);
    for (Index depth = 0; depth < depths; depth += BLOCK_K) {
        const bool more = depth + BLOCK_K < depths;
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
}

// Hands this block's sums over, and returns true in the block that comes last, with the sums of all of them. `partial`
// is the place of this tile's sums in the workspace, all splits of it, a thread's words THREADS apart; `told` is a word
// of shared memory that nobody uses now.
__device__ __forceinline__ bool add_up(Sums& sums, Accumulator* partial, unsigned int* arrived, Accumulator* told,
                                       int split, int splits) {
    constexpr int WORDS = THREAD_M * THREAD_N * THREADS;
#pragma unroll
    for (int i = 0; i < THREAD_M * THREAD_N; ++i)
        partial[static_cast<Index>(split) * WORDS + i * THREADS + threadIdx.x] = sums.at[i / THREAD_N][i % THREAD_N];
    __threadfence();  // the sums are there before the arrival is counted
    __syncthreads();
    if (threadIdx.x == 0) *told = atomicAdd(arrived, 1u) == static_cast<unsigned int>(splits - 1) ? 1 : 0;
    __syncthreads();
    if (*told == Accumulator(0)) return false;
    __threadfence();
    sums = Sums();
    for (int other = 0; other < splits; ++other)
#pragma unroll
        for (int i = 0; i < THREAD_M * THREAD_N; ++i)
            sums.at[i / THREAD_N][i % THREAD_N] +=
                partial[static_cast<Index>(other) * WORDS + i * THREADS + threadIdx.x];
    return true;
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    split_k(const Element* __restrict__ a, const Element* __restrict__ b, Product* __restrict__ c, Index m, Index n,
            Index k, Index lda, Index ldb, Index ldc, Index stride_a, Index stride_b, Index stride_c, Index batch,
            unsigned char* workspace) {
    DYNAMIC_SHARED(shared);
    Accumulator* const tiles = reinterpret_cast<Accumulator*>(shared);
    const ThreadTile place(threadIdx.x);
    const Index across = (n + BLOCK_N - 1) / BLOCK_N, down = (m + BLOCK_M - 1) / BLOCK_M;
    const int splits = gridDim.x / (down * across), split = blockIdx.x % splits;
    const Index number = blockIdx.x / splits;
    const Tile tile = {number / across * BLOCK_M, number % across * BLOCK_N};
    const Index rows = m - tile.row, columns = n - tile.column;
    const bool aligned_a = is_aligned<LoaderA::COUNT>(a, lda, stride_a);
    const bool aligned_b = is_aligned<LoaderB::COUNT>(b, ldb, stride_b);
    const bool aligned_c = is_aligned<GROUP>(c, ldc, stride_c);
    const bool interior = rows >= BLOCK_M && columns >= BLOCK_N && aligned_a && aligned_b;
    // Parts begin at multiples of BLOCK_K, and so at aligned elements.
    const Index part = (k + splits * BLOCK_K - 1) / (splits * BLOCK_K) * BLOCK_K, first = split * part;
    const Index depths = first < k ? (k - first < part ? k - first : part) : 0;
    unsigned int* const arrived = reinterpret_cast<unsigned int*>(workspace);
    const Index counters = (down * across * batch + 3) / 4 * 4;  // the sums after them begin aligned
    Accumulator* const partial = reinterpret_cast<Accumulator*>(arrived + counters);

    for (Index item = blockIdx.z; item < batch; item += gridDim.z) {
        Sums sums;
        if (depths > 0) {
            const Element* corner_a = a + item * stride_a + tile.row * row_step_a(lda) + first * column_step_a(lda);
            const Element* corner_b = b + item * stride_b + tile.column * column_step_b(ldb) + first * row_step_b(ldb);
            LoaderA carrier_a(corner_a, lda, rows, threadIdx.x, aligned_a);
            LoaderB carrier_b(corner_b, ldb, columns, threadIdx.x, aligned_b);
            multiply(sums, carrier_a, carrier_b, tiles, place, depths, interior);
        }
        const Index its_tile = item * down * across + number;
        const Index words = static_cast<Index>(splits) * BLOCK_M * BLOCK_N;
        if (splits == 1 || add_up(sums, partial + its_tile * words, arrived + its_tile, tiles, split, splits))
            sums.write(c + item * stride_c + tile.row * ldc + tile.column, ldc, rows, columns, place, aligned_c);
    }
}
