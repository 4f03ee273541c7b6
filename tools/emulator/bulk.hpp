// Bulk tensor copies, and barriers that count their bytes. A copy into shared memory is done only when somebody looks
// for its barrier's phase, one out of it only when its thread waits for it; until then nobody may touch the box.
#pragma once

#include "launch.hpp"

namespace emulated {

// Sizes in elements, pitches in bytes.
struct TensorMap {
    unsigned char* memory;
    long long columns, rows, items, pitch, stride, box_rows, box_columns, element_bytes;

    static TensorMap of(Arguments& given) {
        return {given.next_memory(), given.next_number(), given.next_number(), given.next_number(), given.next_number(),
                given.next_number(), given.next_number(), given.next_number(), given.next_number()};
    }

    // Bytes that lie one after another, in pieces of 16.
    static TensorMap of_run(const void* memory, long long bytes) {
        constexpr long long PIECE = 16;
        return {static_cast<unsigned char*>(const_cast<void*>(memory)), bytes / PIECE, 1, 1, bytes, 0, 1,
                bytes / PIECE, PIECE};
    }
};

constexpr unsigned int FIRST_ADDRESS = 1024;  // of a block's dynamic shared memory

unsigned char* at_address(unsigned int shared);
void begin_barrier(unsigned int barrier, int arrivals);
void come_to_barrier(unsigned int barrier, int bytes);  // that copies will bring too
bool phase_has_ended(unsigned int barrier, unsigned int parity);
void begin_load(unsigned int shared, const TensorMap&, unsigned int barrier, int x, int y, int z);
void begin_store(unsigned int shared, const TensorMap&, int x, int y, int z);
void end_store_group();
void complete_stores(int pending);  // groups of this thread

}  // namespace emulated
