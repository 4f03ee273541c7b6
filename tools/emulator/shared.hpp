// Shared memory of the block that runs now, and of the others of its cluster. Each block finds garbage in it.
#pragma once

#include "launch.hpp"

namespace emulated {

constexpr unsigned char GARBAGE = 0xFF;  // NaN in every floating type

void begin_shared(const Kernel&, long long dynamic_bytes, int blocks);  // of a cluster
void use_shared(int rank);    // of the block whose turn it is
void close_shared(int rank);  // until it is refilled, nobody may touch it
void refill_shared();
void end_shared();
bool is_shared(const void*);

}  // namespace emulated
