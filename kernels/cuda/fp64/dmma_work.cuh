// Resident blocks that go from tile to tile of float64: a tile's first copies are under way while sums of the one
// before are stored. What does not fill a last wave is cut along k, as stream_k.cuh says.
#pragma once
#include "dmma_pipeline.cuh"
#include "dmma_stream_k.cuh"
#include "stream_k_sums.cuh"

// What is known of a work tile: looked up by one thread, while the one before begins.
struct WorkTile {
    bool exists;
    TileSegment segment;
    Corner corner;
};

// In shared memory. A work tile's place is taken again by the third after it, when all warps are past it.
struct Notes {
    static constexpr int KEPT = 3;
    WorkShare share;
    WorkTile kept[KEPT];

    __device__ __forceinline__ void look_up(WorkTile& work) {
        work.exists = share.next(work.segment);
        if (work.exists) work.corner = share.corner(work.segment.tile);
    }
};
static_assert(sizeof(Notes) <= 160, "what the launch leaves for notes");

// The kernel's arguments.
struct Matrices {
    const double *a, *b;
    double* c;
    Index m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c;
    bool aligned;  // operands, to 16 bytes

    __device__ __forceinline__ Part part(const WorkTile& work) const {
        return {work.corner.down, work.corner.across, m, n};
    }

    __device__ __forceinline__ Operands operands(const WorkTile& work, const Part& part) const {
        const Index step = work.segment.first * static_cast<Index>(BLOCK_K), left = k - step;
        const Index most = work.segment.count * static_cast<Index>(BLOCK_K);
        return {a + work.corner.item * stride_a + part.row * row_step_a(lda) + step * column_step_a(lda),
                b + work.corner.item * stride_b + part.column * column_step_b(ldb) + step * row_step_b(ldb),
                left < most ? left : most, lda, ldb};
    }
};

// A warp's sums of a segment of a tile that is cut.
struct Handed {
    static constexpr int RUNS = SLABS_M * SLABS_N * 4;  // of two sums of a thread
    WarpProduct& warp;
    double2* workspace;
    int tile;

    __device__ __forceinline__ double2* of(int sharer) const {
        return workspace + static_cast<Index>(Tiles::place_of(sharer, tile)) * (RUNS * THREADS) + threadIdx.x;
    }

    __device__ __forceinline__ double* two(int run) const {
        return warp.sums[run / 4 / SLABS_N][run / 4 % SLABS_N].at[run % 4 / 2] + run % 2 * 2;
    }

    __device__ __forceinline__ void write(int sharer) const {
        double2* const place = of(sharer);
#pragma unroll
        for (int run = 0; run < RUNS; ++run)
            __stcg(place + run * THREADS, double2{two(run)[0], two(run)[1]});
    }

    __device__ __forceinline__ void add(int sharer) const {
        const double2* const place = of(sharer);
#pragma unroll
        for (int run = 0; run < RUNS; ++run) {
            const double2 more = __ldcg(place + run * THREADS);
            two(run)[0] += more.x, two(run)[1] += more.y;
        }
    }

    __device__ __forceinline__ void clear() const {
#pragma unroll
        for (int i = 0; i < SLABS_M * SLABS_N; ++i)
            warp.sums[i / SLABS_N][i % SLABS_N] = SquareSums();
    }
};

// Stores a warp's sums of a work tile in C, or hands them over.
__device__ __forceinline__ void end_work(WarpProduct& warp, const Matrices& of, const Notes& notes,
                                         const WorkTile& work, double2* workspace) {
    const Part part = of.part(work);
    const int rows = part.rows - part.warp_row, columns = part.columns - part.warp_column;
    if (rows <= 0 || columns <= 0) return;
    const int tile = work.segment.tile;
    if (work.segment.is_cut &&
        !add_up(Handed{warp, workspace, tile}, notes.share.sharers_of(tile), tile, notes.share.block))
        return;
    double* const matrix = of.c + work.corner.item * of.stride_c;
    double* const corner = matrix + (part.row + part.warp_row) * of.ldc + part.column + part.warp_column;
    warp.write(corner, of.ldc, rows, columns, is_aligned<2>(of.c, of.ldc, of.stride_c));
}

struct BeginWork {
    const Part& part;
    const Operands& of;
    double* tiles;

    template <typename InWay>
    __device__ __forceinline__ void operator()(InWay way) const {
        auto couriers = way.couriers(part, of);
        way.begin(couriers, of, tiles);
    }
};

__device__ __forceinline__ void begin_work(const Matrices& of, const WorkTile& work, double* tiles) {
    const Part part = of.part(work);
    const Operands operands = of.operands(work, part);
    in_its_way(of.aligned, part.whole(), BeginWork{part, operands, tiles});
}

struct GoOn {
    WarpProduct& warp;
    const Part& part;
    const Operands& of;
    int count;
    double* tiles;

    template <typename InWay>
    __device__ __forceinline__ void operator()(InWay way) const {
        auto couriers = way.couriers(part, of);
        couriers.skip_first();
        way.multiply(warp, couriers, part, count, tiles);
    }
};

__device__ __forceinline__ void go_through_turns(const Matrices& of, Index batch, double* tiles, Notes& notes,
                                                 double2* workspace) {
    if (threadIdx.x == 0) {
        const int down = static_cast<int>((of.m + BLOCK_M - 1) / BLOCK_M);
        const int across = static_cast<int>((of.n + BLOCK_N - 1) / BLOCK_N);
        const int steps = static_cast<int>((of.k + BLOCK_K - 1) / BLOCK_K);
        notes.share = WorkShare(down, across, static_cast<int>(batch), steps);
        notes.look_up(notes.kept[0]);
    }
    __syncthreads();
    if (notes.kept[0].exists) begin_work(of, notes.kept[0], tiles);
#pragma unroll 1
    for (int now = 0, next = 1; notes.kept[now].exists; now = next, next = (next + 1) % Notes::KEPT) {
        if (threadIdx.x == 0) notes.look_up(notes.kept[next]);
        const WorkTile& work = notes.kept[now];
        const Part part = of.part(work);
        const Operands operands = of.operands(work, part);
        WarpProduct warp(part.warp_row, part.warp_column);
        in_its_way(of.aligned, part.whole(), GoOn{warp, part, operands, work.segment.count, tiles});
        if (notes.kept[next].exists) begin_work(of, notes.kept[next], tiles);
        end_work(warp, of, notes, work, workspace);
    }
}
