// Tiles of a symmetric C = X·Xᵀ that have elements on or below the diagonal: no others are computed. They are counted
// in groups of a few rows, column by column as far as all rows of a group go, so that operands are still in the L2 for
// a tile's neighbours; then row by row what only the lower of them have.
#pragma once

struct TriangleTile {
    int row, column;  // counted in tiles
};

// Of n rows and columns, in tiles of ROWS × COLUMNS.
template <int ROWS, int COLUMNS, int GROUP>
struct Triangle {
    __device__ static constexpr int divisor(int a, int b) { return b == 0 ? a : divisor(b, a % b); }

    // UP tiles across reach as far as DOWN rows of tiles.
    static constexpr int UP = ROWS / divisor(ROWS, COLUMNS), DOWN = COLUMNS / divisor(ROWS, COLUMNS);

    int tall, across, count;

    __device__ __forceinline__ explicit Triangle(int n) : tall((n - 1) / ROWS + 1), across((n - 1) / COLUMNS + 1) {
        count = before(tall - 1) + of_row(tall - 1);
    }

    __device__ __forceinline__ TriangleTile at(int index) const {
        int first = 0;
        while (first + GROUP < tall && before(first + GROUP) <= index)
            first += GROUP;
        const int height = min(GROUP, tall - first), together = of_row(first);
        int rest = index - before(first), row = first;
        if (rest < together * height) return {first + rest % height, rest / height};
        rest -= together * height;
        while (rest >= of_row(row) - together)
            rest -= of_row(row++) - together;
        return {row, together + rest};
    }

private:
    // The last row's tiles may reach past the last column.
    __device__ __forceinline__ int of_row(int row) const { return min(across, ((row + 1) * UP - 1) / DOWN + 1); }

    // Tiles of the rows above; none of those is the last.
    __device__ __forceinline__ int before(int rows) const {
        const int periods = rows / DOWN, rest = rows - periods * DOWN;
        int tiles = UP * DOWN * (periods * (periods - 1) / 2) + periods * of_period() + rest * UP * periods;
        for (int i = 0; i < rest; ++i)
            tiles += of_rows_from_the_top(i);
        return tiles;
    }

    __device__ __forceinline__ static int of_rows_from_the_top(int row) { return ((row + 1) * UP - 1) / DOWN + 1; }

    // Of the first DOWN rows.
    __device__ __forceinline__ static int of_period() {
        int tiles = 0;
        for (int i = 0; i < DOWN; ++i)
            tiles += of_rows_from_the_top(i);
        return tiles;
    }
};
