#include "copies.hpp"

#include <sanitizer/asan_interface.h>

#include <cstdint>
#include <cstring>

#include "bulk.hpp"
#include "emulated.hpp"
#include "launch.hpp"
#include "shared.hpp"

namespace emulated {

void Copies::issue(const Copy& copy) {
    require_multiple("An asynchronous copy's destination", reinterpret_cast<uintptr_t>(copy.shared), copy.bytes);
    require_multiple("An asynchronous copy's source", reinterpret_cast<uintptr_t>(copy.global), copy.bytes);
    if (!is_shared(copy.shared)) fail("An asynchronous copy's destination %p is not in shared memory.", copy.shared);
    if (copy.taken < 0 || copy.taken > copy.bytes)
        fail("An asynchronous copy of %d bytes takes %d.", copy.bytes, copy.taken);
    unsigned char readable[16];
    memcpy(readable, copy.global, copy.taken);  // now, so that a report names the line where the copy was asked for
    memset(copy.shared, GARBAGE, copy.bytes);
    __asan_poison_memory_region(copy.shared, copy.bytes);
    issued.push_back(copy);
    ++ungrouped;
}

void Copies::end_group() {
    groups.push_back({ungrouped});
    ungrouped = 0;
}

void Copies::end_group_at(unsigned int barrier) {
    groups.push_back({ungrouped, barrier, true});
    ungrouped = 0;
}

void Copies::complete(int pending) {
    while (groups.size() > static_cast<size_t>(pending))
        complete_oldest();
}

void Copies::complete_for(unsigned int barrier) {
    size_t last = 0;
    for (size_t index = 0; index < groups.size(); ++index)
        if (groups[index].arrives && groups[index].barrier == barrier) last = index + 1;
    for (; last > 0; --last)
        complete_oldest();
}

void Copies::complete_oldest() {
    const Group group = groups.front();
    groups.pop_front();
    for (size_t left = group.copies; left > 0; --left) {
        const Copy copy = issued.front();
        issued.pop_front();
        __asan_unpoison_memory_region(copy.shared, copy.bytes);
        memset(copy.shared, 0, copy.bytes);
        memcpy(copy.shared, copy.global, copy.taken);
    }
    if (group.arrives) come_to_barrier(group.barrier, 0);
}

void Copies::forget() {
    for (const Copy& copy : issued)
        __asan_unpoison_memory_region(copy.shared, copy.bytes);
    issued.clear();
    groups.clear();
    ungrouped = 0;
}

}  // namespace emulated
