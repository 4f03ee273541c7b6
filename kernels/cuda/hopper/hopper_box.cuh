// Where 32-bit sums go in a box of C as bulk copies store it: 16 rows of a warp, 32 columns, 128-byte swizzle. Of each
// group of 8 columns a thread holds four sums (hopper_mma.cuh).
#pragma once

// Gives every pair of neighbouring sums to `store`, with its place in bytes. Threads of odd rows write the group two
// further on, or two back: what half of a warp writes at once then lies in different banks.
template <typename Sum, typename Store>
__device__ __forceinline__ void place_sums(const Sum* sums, int lane, Store store) {
    const int row = lane / 4, pair = lane % 4;
    const bool is_odd = row % 2;
#pragma unroll
    for (int order = 0; order < 4; ++order) {
        const int group = is_odd ? order ^ 2 : order;
        const int chunk = group * 2 + pair / 2;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const Sum* const even = sums + order * 4 + half * 2;
            const Sum* const odd = sums + (order ^ 2) * 4 + half * 2;
            const int place = (row + half * 8) * 128 + (chunk ^ row) * 16 + pair % 2 * 8;
            store(place, is_odd ? odd[0] : even[0], is_odd ? odd[1] : even[1]);
        }
    }
}
