// Included by hopper_fp32.cu: the multiply-adds of a thread, and nearly nothing between them.
#pragma once

// Where a thread's operands lie in the first stage. Of its warp's 64×64 it has four rows of each 16 and four columns
// of each 32: a warp reads rows of k in runs of 64 and of 128 bytes.
struct Reader {
    unsigned int a, b;

    __device__ __forceinline__ Reader(const Shared& at, int warp, int lane) {
        const int row = warp / WARPS_N * WARP_M, column = warp % WARPS_N * WARP_N;
        a = at.a(0) + row / BOX * BOX_BYTES + (row % BOX + lane % 4 * 4) * 4;
        b = at.b(0) + column / BOX * BOX_BYTES + (column % BOX + lane / 4 * 4) * 4;
    }
};

struct Thread {
    float sums[ROWS][COLUMNS];
    float a[2][ROWS], b[2][COLUMNS];  // of two steps of k that take turns

    __device__ __forceinline__ void read(unsigned int from_a, unsigned int from_b, int step) {
#pragma unroll
        for (int i = 0; i < ROWS; i += 4)
            read_four(a[step % 2] + i, from_a + i * 16);
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4)
            read_four(b[step % 2] + j, from_b + j * 32);
    }

    // In squares of two rows and two columns, forth and back. A multiply-add reads three registers, and each of the two
    // banks of registers gives one in a clock; what was read last of a bank, in the same place of an instruction, may
    // be kept. So a square reads its four sums and, in the middle of a row of squares, two operands.
    __device__ __forceinline__ void multiply(int step) {
#pragma unroll
        for (int i = 0; i < ROWS; i += 2)
#pragma unroll
            for (int turn = 0; turn < COLUMNS; turn += 2)
#pragma unroll
                for (int each = 0; each < 4; ++each) {
                    const int row = i + each / 2;
                    const int column = (i / 2 % 2 ? COLUMNS - 2 - turn : turn) + each % 2;
                    sums[row][column] = fmaf(a[step % 2][row], b[step % 2][column], sums[row][column]);
                }
    }
};

// Multiplies `count` stages, at least one. STRETCH steps of k are code without a branch, in which the compiler is free
// to spread reads among the multiply-adds; with the last of a stage it reads what the next begins with.
template <class Refill>
__device__ __forceinline__ void multiply_stages(const Shared& at, Notes& notes, const Reader& reader,
                                                RingPlace<STAGES>& place, Thread& thread, int count, bool speaks,
                                                Refill refill) {
    wait_barrier(at.full(place.stage), place.parity);
    unsigned int a = reader.a + place.stage * STAGE_BYTES, b = reader.b + place.stage * STAGE_BYTES;
    thread.read(a, b, 0);
    for (bool more = true; more; --count) {
        const RingPlace<STAGES> present = place;
        bool feeds = false;
        place.advance();
        more = count > 1;
        const int next =
            more ? place.stage : present.stage;  // after the last one, what is there is read again, for nothing
#pragma unroll 1
        for (int from = 0; from < BLOCK_K; from += STRETCH) {
            const bool last = from == BLOCK_K - STRETCH;
            if (last && speaks) feeds = comes_first(notes, present.stage);
            if (last && more) wait_barrier(at.full(place.stage), place.parity);
            const unsigned int next_a = last ? reader.a + next * STAGE_BYTES : a + STRETCH * ROW_BYTES;
            const unsigned int next_b = last ? reader.b + next * STAGE_BYTES : b + STRETCH * ROW_BYTES;
#pragma unroll
            for (int step = 0; step < STRETCH; ++step) {
                const bool beyond = step == STRETCH - 1;
                const int offset = (step + 1) * ROW_BYTES;
                thread.read(beyond ? next_a : a + offset, beyond ? next_b : b + offset, step + 1);
                thread.multiply(step);
            }
            a = next_a;
            b = next_b;
        }
        __syncwarp();
        if (speaks) arrive(at.empty(present.stage));
        if (feeds) refill(present);
    }
}
