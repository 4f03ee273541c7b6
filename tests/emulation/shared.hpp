// Shared memory of the block that runs now. Each block finds garbage in it.
#pragma once

#include "launch.hpp"

namespace emulated {

constexpr unsigned char GARBAGE = 0xFF;  // NaN in every floating type

void begin_shared(const Kernel&, long long dynamic_bytes);
void refill_shared();
void end_shared();
bool is_shared(const void*);

}  // namespace emulated
