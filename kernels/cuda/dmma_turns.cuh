// Resident blocks that go from tile to tile of float64: a tile's first copies are under way while sums of the one
// before are stored. What does not fill a last turn is cut along k, as sharing.cuh says.
#pragma once
#include "dmma_pipeline.cuh"
#include "dmma_sharing.cuh"
#include "sharing_sums.cuh"

// What is known of a turn: looked up by one thread, while the turn before begins.
struct Turn {
    bool exists;
    Piece piece;
    Corner corner;
};

// In shared memory. A turn's place is taken again by the third after it, when all warps are past it.
struct Notes {
    static constexpr int KEPT = 3;
    Share share;
    Turn kept[KEPT];

    __device__ __forceinline__ void look_up(Turn& turn) {
        turn.exists = share.next(turn.piece);
        if (turn.exists) turn.corner = share.corner(turn.piece.tile);
    }
};
static_assert(sizeof(Notes) <= 160, "what the launch leaves for notes");

// The kernel's arguments.
struct Matrices {
    const double *a, *b;
    double* c;
    Index m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c;
    bool aligned;  // operands, to 16 bytes

    __device__ __forceinline__ Part part(const Turn& turn) const {
        return {turn.corner.down, turn.corner.across, m, n};
    }

    __device__ __forceinline__ Operands operands(const Turn& turn, const Part& part) const {
        const Index step = turn.piece.first * static_cast<Index>(BLOCK_K), left = k - step;
        const Index most = turn.piece.count * static_cast<Index>(BLOCK_K);
        return {a + turn.corner.item * stride_a + part.row * row_step_a(lda) + step * column_step_a(lda),
                b + turn.corner.item * stride_b + part.column * column_step_b(ldb) + step * row_step_b(ldb),
                left < most ? left : most, lda, ldb};
    }
};

// A warp's sums of a piece of a tile that is cut.
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

// Stores a warp's sums of a turn in C, or hands them over.
__device__ __forceinline__ void end_turn(WarpProduct& warp, const Matrices& of, const Notes& notes, const Turn& turn,
                                         double2* workspace) {
    const Part part = of.part(turn);
    const int rows = part.rows - part.warp_row, columns = part.columns - part.warp_column;
    if (rows <= 0 || columns <= 0) return;
    const int tile = turn.piece.tile;
    if (turn.piece.is_cut &&
        !add_up(Handed{warp, workspace, tile}, notes.share.sharers_of(tile), tile, notes.share.block))
        return;
    double* const matrix = of.c + turn.corner.item * of.stride_c;
    double* const corner = matrix + (part.row + part.warp_row) * of.ldc + part.column + part.warp_column;
    warp.write(corner, of.ldc, rows, columns, is_aligned<2>(of.c, of.ldc, of.stride_c));
}

struct BeginTurn {
    const Part& part;
    const Operands& of;
    double* tiles;

    template <typename InWay>
    __device__ __forceinline__ void operator()(InWay way) const {
        auto couriers = way.couriers(part, of);
        way.begin(couriers, of, tiles);
    }
};

__device__ __forceinline__ void begin_turn(const Matrices& of, const Turn& turn, double* tiles) {
    const Part part = of.part(turn);
    const Operands operands = of.operands(turn, part);
    in_its_way(of.aligned, part.whole(), BeginTurn{part, operands, tiles});
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
        notes.share = Share(down, across, static_cast<int>(batch), steps);
        notes.look_up(notes.kept[0]);
    }
    __syncthreads();
    if (notes.kept[0].exists) begin_turn(of, notes.kept[0], tiles);
#pragma unroll 1
    for (int now = 0, next = 1; notes.kept[now].exists; now = next, next = (next + 1) % Notes::KEPT) {
        if (threadIdx.x == 0) notes.look_up(notes.kept[next]);
        const Turn& turn = notes.kept[now];
        const Part part = of.part(turn);
        const Operands operands = of.operands(turn, part);
        WarpProduct warp(part.warp_row, part.warp_column);
        in_its_way(of.aligned, part.whole(), GoOn{warp, part, operands, turn.piece.count, tiles});
        if (notes.kept[next].exists) begin_turn(of, notes.kept[next], tiles);
        end_turn(warp, of, notes, turn, workspace);
    }
}
