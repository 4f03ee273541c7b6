#include "shared.hpp"

#include <cstdlib>
#include <cstring>

#include "emulated.hpp"

namespace emulated {

namespace {

constexpr size_t DYNAMIC_ALIGNMENT = 32;  // as in common.cuh
unsigned char* dynamic = nullptr;
unsigned char *variables = nullptr, *end_of_variables = nullptr;
long long bytes = 0;

// The sanitizer's own zones between the variables lie in the section too, and may be written here.
__attribute__((no_sanitize("address"))) void refill_variables() {
    for (volatile unsigned char* at = variables; at < end_of_variables; ++at)
        *at = GARBAGE;
}

}  // namespace

void begin_shared(const Kernel& kernel, long long dynamic_bytes) {
    variables = kernel.shared_begin;
    end_of_variables = kernel.shared_end;
    bytes = dynamic_bytes;
    void* room = nullptr;
    if (posix_memalign(&room, DYNAMIC_ALIGNMENT, bytes) != 0) abort();  // what lies past its end is an error
    dynamic = static_cast<unsigned char*>(room);
}

void refill_shared() {
    memset(dynamic, GARBAGE, bytes);
    refill_variables();
}

void end_shared() { free(dynamic); }

bool is_shared(const void* address) {
    const auto* at = static_cast<const unsigned char*>(address);
    return (at >= dynamic && at < dynamic + bytes) || (at >= variables && at < end_of_variables);
}

unsigned char* dynamic_shared() { return dynamic; }

}  // namespace emulated
