// As stream_k.cuh, of a symmetric C in square tiles: resident blocks share out those on and below its diagonal. The
// others are mirrored afterwards (worker/cuda/src/mirror.cu).
#pragma once

#include "stream_k.cuh"
#include "triangle.cuh"

template <int SHORTEST, int COST, int SECOND, int EACH = 1>
struct TriangleSharing : Sharing<SHORTEST, COST, SECOND, EACH> {
    typedef Sharing<SHORTEST, COST, SECOND, EACH> Line;  // of tiles, wherever they lie
    typedef Triangle<1, 1, Line::RASTER> Order;

    // C has as many rows of tiles as columns, and is one; no block is left for anything else.
    __device__ __forceinline__ TriangleSharing(int down, int, int, int steps, bool light, float = 0)
        : Line(Order(down).count, 1, 1, steps, light) {
        this->down = this->across = down;
    }

    __device__ __forceinline__ Corner corner(int tile) const {
        const TriangleTile place = Order(this->down).at(tile);
        return {0, place.row, place.column};
    }
};
