#include "copies.hpp"

#include <sanitizer/asan_interface.h>

#include <cstdint>
#include <cstring>

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
    groups.push_back(ungrouped);
    ungrouped = 0;
}

void Copies::complete(int pending) {
    for (; groups.size() > static_cast<size_t>(pending); groups.pop_front())
        complete_oldest(groups.front());
}

void Copies::complete_oldest(size_t count) {
    for (; count > 0; --count) {
        const Copy copy = issued.front();
        issued.pop_front();
        __asan_unpoison_memory_region(copy.shared, copy.bytes);
        memset(copy.shared, 0, copy.bytes);
        memcpy(copy.shared, copy.global, copy.taken);
    }
}

void Copies::forget() {
    for (const Copy& copy : issued)
        __asan_unpoison_memory_region(copy.shared, copy.bytes);
    issued.clear();
    groups.clear();
    ungrouped = 0;
}

}  // namespace emulated
