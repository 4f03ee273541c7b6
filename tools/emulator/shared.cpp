#include "shared.hpp"

#include <sanitizer/asan_interface.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "emulated.hpp"

namespace emulated {

namespace {

constexpr size_t DYNAMIC_ALIGNMENT = 32;  // as in common.cuh
std::vector<unsigned char*> rooms;  // by rank
unsigned char* dynamic = nullptr;   // the one whose block has its turn
unsigned char *variables = nullptr, *end_of_variables = nullptr;
long long bytes = 0;

// The sanitizer's own zones between the variables lie in the section too, and may be written here.
__attribute__((no_sanitize("address"))) void refill_variables() {
    for (volatile unsigned char* at = variables; at < end_of_variables; ++at)
        *at = GARBAGE;
}

}  // namespace

void begin_shared(const Kernel& kernel, long long dynamic_bytes, int blocks) {
    variables = kernel.shared_begin;
    end_of_variables = kernel.shared_end;
    bytes = dynamic_bytes;
    for (rooms.resize(blocks); unsigned char*& each : rooms) {
        void* room = nullptr;
        if (posix_memalign(&room, DYNAMIC_ALIGNMENT, bytes) != 0) abort();  // what lies past its end is an error
        each = static_cast<unsigned char*>(room);
    }
    use_shared(0);
}

void use_shared(int rank) { dynamic = rooms[rank]; }
void close_shared(int rank) { __asan_poison_memory_region(rooms[rank], bytes); }

void refill_shared() {
    for (unsigned char* room : rooms) {
        __asan_unpoison_memory_region(room, bytes);
        memset(room, GARBAGE, bytes);
    }
    refill_variables();
}

void end_shared() {
    for (unsigned char* room : rooms) {
        __asan_unpoison_memory_region(room, bytes);
        free(room);
    }
}

bool is_shared(const void* address) {
    const auto* at = static_cast<const unsigned char*>(address);
    return (at >= dynamic && at < dynamic + bytes) || (at >= variables && at < end_of_variables);
}

unsigned char* dynamic_shared() { return dynamic; }

const void* shared_of(int rank, const void* own) {
    const auto offset = static_cast<const unsigned char*>(own) - dynamic;
    if (rank < 0 || rank >= static_cast<int>(rooms.size()) || offset < 0 || offset >= bytes)
        fail("The cluster has no such place in its shared memory.");
    return rooms[rank] + offset;
}

}  // namespace emulated
