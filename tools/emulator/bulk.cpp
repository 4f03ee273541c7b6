#include "bulk.hpp"

#include <sanitizer/asan_interface.h>

#include <cstring>
#include <deque>
#include <map>
#include <vector>

#include "emulated.hpp"
#include "shared.hpp"

namespace emulated {

namespace {

constexpr int CHUNK = 16, SWIZZLED = 128, HALF = 64, BARRIER = 8;  // bytes

struct Barrier {
    int arrivals, pending;  // of a phase
    long long bytes = 0;    // that are to come
    unsigned int phase = 0;
};

struct Box {
    unsigned int shared;
    TensorMap map;
    int x, y, z;
    unsigned int barrier = 0;

    long long row_bytes() const { return map.box_columns * map.element_bytes; }
    long long bytes() const { return map.box_rows * row_bytes(); }
};

struct Stores {
    std::vector<Box> open;
    std::deque<std::vector<Box>> groups;
};

std::map<unsigned int, Barrier> barriers;
std::deque<Box> loads;
std::map<unsigned int, Stores> stores;  // by thread

Barrier& known(unsigned int barrier) {
    const auto found = barriers.find(barrier);
    if (found == barriers.end()) fail("There is no barrier at %#x.", barrier);
    return found->second;
}

void end_phase(Barrier& barrier) {
    if (barrier.pending < 0) fail("More threads come to a barrier than it counts.");
    if (barrier.pending != 0 || barrier.bytes != 0) return;
    barrier.pending = barrier.arrivals;
    ++barrier.phase;
}

// Chunks of 16 bytes are permuted within groups of eight rows, where these have 128 bytes or 64.
unsigned int swizzled(const Box& box, unsigned int at) {
    if (box.row_bytes() == SWIZZLED) return at ^ (at / SWIZZLED % 8 * CHUNK);
    return box.row_bytes() == HALF ? at ^ (at / SWIZZLED % 4 * CHUNK) : at;
}

void touch(const Box& box, bool closed) {
    unsigned char* const first = at_address(box.shared);
    if (closed)
        __asan_poison_memory_region(first, box.bytes());
    else
        __asan_unpoison_memory_region(first, box.bytes());
}

void check(const Box& box) {
    const bool permuted = box.row_bytes() == SWIZZLED || box.row_bytes() == HALF;
    const bool whole = permuted && box.map.box_rows > 1;  // of a pattern; a row has its place in one
    require_multiple("A box's place in shared memory", box.shared, whole ? 8 * box.row_bytes() : 128);
    require_multiple("A matrix's address", reinterpret_cast<unsigned long long>(box.map.memory), 16);
    require_multiple("A matrix's pitch", box.map.pitch, 16);
    if (__asan_region_is_poisoned(at_address(box.shared), box.bytes())) fail("A copy meets another, or ends outside.");
}

// For each element of the box its place in shared memory, and in the matrix: null outside.
template <typename Visit>
void for_each_element(const Box& box, Visit visit) {
    const long long size = box.map.element_bytes;
    for (long long row = 0; row < box.map.box_rows; ++row)
        for (long long column = 0; column < box.map.box_columns; ++column) {
            const long long x = box.x + column, y = box.y + row;
            const unsigned int at = box.shared + (row * box.map.box_columns + column) * size;
            const bool inside = x >= 0 && x < box.map.columns && y >= 0 && y < box.map.rows && box.z < box.map.items;
            unsigned char* const there = box.map.memory + box.z * box.map.stride + y * box.map.pitch + x * size;
            visit(at_address(swizzled(box, at)), inside ? there : nullptr);
        }
}

void complete_load(const Box& box) {
    touch(box, false);
    for_each_element(box, [&box](unsigned char* shared, const unsigned char* there) {
        if (there)
            memcpy(shared, there, box.map.element_bytes);
        else
            memset(shared, 0, box.map.element_bytes);
    });
    Barrier& barrier = known(box.barrier);
    barrier.bytes -= box.bytes();
    end_phase(barrier);
}

unsigned int thread() { return threadIdx.x; }

}  // namespace

unsigned char* at_address(unsigned int shared) { return dynamic_shared() + (shared - FIRST_ADDRESS); }

void begin_barrier(unsigned int barrier, int arrivals) {
    if (!loads.empty()) fail("A block ended with copies under way.");
    require_multiple("A barrier's place", barrier, BARRIER);
    memset(at_address(barrier), 0, BARRIER);  // it has to lie in what the launch gives
    barriers[barrier] = {arrivals, arrivals};
}

void come_to_barrier(unsigned int barrier, int bytes) {
    Barrier& its = known(barrier);
    its.bytes += bytes;
    --its.pending;
    end_phase(its);
    note_change();
}

bool phase_has_ended(unsigned int barrier, unsigned int parity) {
    for (size_t left = loads.size(); left > 0; --left) {
        const Box box = loads.front();
        loads.pop_front();
        if (box.barrier == barrier)
            complete_load(box);
        else
            loads.push_back(box);
    }
    return known(barrier).phase % 2 != parity;
}

void begin_load(unsigned int shared, const TensorMap& map, unsigned int barrier, int x, int y, int z) {
    const Box box = {shared, map, x, y, z, barrier};
    check(box);
    touch(box, true);
    loads.push_back(box);
    note_change();
}

void begin_store(unsigned int shared, const TensorMap& map, int x, int y, int z) {
    const Box box = {shared, map, x, y, z};
    check(box);
    touch(box, true);
    stores[thread()].open.push_back(box);
}

void end_store_group() {
    Stores& mine = stores[thread()];
    mine.groups.push_back(mine.open);
    mine.open.clear();
}

void complete_stores(int pending) {
    Stores& mine = stores[thread()];
    for (; mine.groups.size() > static_cast<size_t>(pending); mine.groups.pop_front())
        for (const Box& box : mine.groups.front()) {
            touch(box, false);
            for_each_element(box, [&box](const unsigned char* shared, unsigned char* there) {
                if (there) memcpy(there, shared, box.map.element_bytes);
            });
        }
}

}  // namespace emulated
