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

struct ThreadTile {
    float sums[ROWS][COLUMNS];
    float a[ROWS], b[2][COLUMNS];  // b: of two steps of k that take turns

    __device__ __forceinline__ void read_a(unsigned int from, int row) { read_four(a + row, from + row * 16); }

    __device__ __forceinline__ void read_b(unsigned int from, int step) {
#pragma unroll
        for (int j = 0; j < COLUMNS; j += 4)
            read_four(b[step % 2] + j, from + j * 32);
    }

    __device__ __forceinline__ void begin(unsigned int from_a, unsigned int from_b) {
#pragma unroll
        for (int row = 0; row < ROWS; row += 4)
            read_a(from_a, row);
        read_b(from_b, 0);
    }

    // In squares of two rows and two columns, forth and back. A multiply-add reads three registers, and each of the two
    // banks of registers gives one in a clock; what was read last of a bank, in the same place of an instruction, may
    // be kept. So a square reads its four sums and, in the middle of a row of squares, two operands.
    // The next step's rows of A take the place of this step's as soon as these are done with.
    __device__ __forceinline__ void multiply(int step, unsigned int next_a, unsigned int next_b) {
#pragma unroll
        for (int i = 0; i < ROWS; i += 2) {
#pragma unroll
            for (int order = 0; order < COLUMNS; order += 2)
#pragma unroll
                for (int each = 0; each < 4; ++each) {
                    const int row = i + each / 2;
                    const int column = (i / 2 % 2 ? COLUMNS - 2 - order : order) + each % 2;
                    sums[row][column] = fmaf(a[row], b[step % 2][column], sums[row][column]);
                }
            if (i % 4 == 2) read_a(next_a, i - 2);
            if (i == ROWS / 2) read_b(next_b, step + 1);
        }
    }
};

// STRETCH steps of k: code without a branch, in which the compiler is free to spread reads among the multiply-adds.
// With the last step it reads what comes next begins with.
__device__ __forceinline__ void multiply_stretch(ThreadTile& thread, unsigned int a, unsigned int b,
                                                 unsigned int next_a, unsigned int next_b) {
#pragma unroll
    for (int step = 0; step < STRETCH; ++step) {
        const bool beyond = step == STRETCH - 1;
        const int offset = (step + 1) * ROW_BYTES;
        thread.multiply(step, beyond ? next_a : a + offset, beyond ? next_b : b + offset);
    }
}

// Multiplies `count` stages, at least one, of the last one so many stretches. All that is to be decided comes before a
// stage's last stretch, or after it.
template <class Refill>
__device__ __forceinline__ void multiply_stages(const Shared& at, Notes& notes, const Reader& reader,
                                                PipelineState<STAGES>& place, ThreadTile& thread, int count, int last,
                                                bool is_leader, Refill refill) {
    wait_barrier(at.full(place.stage), place.parity);
    unsigned int a = reader.a + place.stage * STAGE_BYTES, b = reader.b + place.stage * STAGE_BYTES;
    thread.begin(a, b);
    for (; count > 0; --count) {
#pragma unroll 1
        for (int left = (count > 1 ? STRETCHES : last) - 1; left > 0; --left) {
            multiply_stretch(thread, a, b, a + STRETCH * ROW_BYTES, b + STRETCH * ROW_BYTES);
            a += STRETCH * ROW_BYTES;
            b += STRETCH * ROW_BYTES;
        }
        const PipelineState<STAGES> present = place;
        const bool loads = is_leader && is_ahead(notes, present.stage);
        place.advance();
        if (count > 1) wait_barrier(at.full(place.stage), place.parity);
        const int next = count > 1 ? place.stage : present.stage;  // what is there is read again, for nothing
        const unsigned int next_a = reader.a + next * STAGE_BYTES, next_b = reader.b + next * STAGE_BYTES;
        multiply_stretch(thread, a, b, next_a, next_b);
        a = next_a;
        b = next_b;
        __syncwarp();
        if (is_leader) arrive(at.empty(present.stage));
        if (loads) refill(present);
        __syncwarp();  // or else the lane that loads might go on alone, and all be multiplied twice
    }
}

// For a warp whose part of the tile lies outside C: it multiplies nothing, so it is mostly ahead, and loads for the
// others.
template <class Refill>
__device__ __forceinline__ void release_stages(const Shared& at, Notes& notes, PipelineState<STAGES>& place, int count,
                                               bool is_leader, Refill refill) {
    for (; count > 0; --count) {
        wait_barrier(at.full(place.stage), place.parity);
        const PipelineState<STAGES> present = place;
        const bool loads = is_leader && is_ahead(notes, present.stage);
        place.advance();
        __syncwarp();
        if (is_leader) arrive(at.empty(present.stage));
        if (loads) refill(present);
        __syncwarp();  // or else the other lanes wait for the next stage, and hold up the one that loads
    }
}
