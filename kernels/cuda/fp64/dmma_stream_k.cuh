// A block's way through its segments, for tensor_fp64.cu: what comes between two tiles keeps tensor cores waiting,
// so its share is worked out once.
#pragma once

#include "stream_k.cuh"

#ifdef TRIANGLE
#include "triangle_sharing.cuh"
typedef TriangleSharing<8, 6, 3> Tiles;
#else
typedef Sharing<8, 6, 3> Tiles;
#endif

struct WorkShare : Tiles {
    int begin, end, cut_tile;  // of this block's share, what is left, and the tile that it begins with
    int whole_tile;            // that this block does next, after its share

    __device__ __forceinline__ WorkShare(int down, int across, int batch, int steps)
        : Tiles(down, across, batch, steps, false) {
        begin = block < shares ? begin_of(block) : 0;
        end = block < shares ? begin_of(block + 1) : 0;
        cut_tile = cut > 0 ? begin / steps : 0;
        whole_tile = cut + block;
    }

    // This block's next segment; false where there is none.
    __device__ __forceinline__ bool next(TileSegment& segment) {
        if (begin < end) {
            const int first = begin - cut_tile * steps, count = min(end - begin, steps - first);
            segment = {cut_tile++, first, count, count < steps};
            begin += count;
            return true;
        }
        segment = {whole_tile, 0, steps, false};
        if (whole_tile >= tiles) return false;
        whole_tile = tiles - whole_tile > static_cast<int>(gridDim.x) ? whole_tile + gridDim.x : tiles;
        return true;
    }
};
