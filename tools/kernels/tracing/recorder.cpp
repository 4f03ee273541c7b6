// Runs one product in the emulator (tools/emulator) and writes each access to global or shared memory to stdout.
//
// The kernel is compiled with -fsanitize=thread, which puts a call before each access, and linked without that
// sanitizer: the calls come here, and so do asynchronous copies. Sizes come from the command line: grid x, block x and
// y, bytes of dynamic shared memory, blocks of a cluster; m, n, k, the row step of all matrices in elements; bytes of
// an element of A and B, and of C; bytes of workspace, for a kernel that has one.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "copies.hpp"
#include "emulated.hpp"
#include "launch.hpp"

extern "C" const emulated::Kernel emulated_kernel;  // in kernel.cpp

namespace {

enum Space { A, B, C, SHARED, DYNAMIC_SHARED, WORKSPACE, SPACES };

struct Access {
    unsigned int thread, block;
    unsigned char is_store, space;
    unsigned short bytes;
    unsigned int offset;
};

struct Region {
    const unsigned char *begin, *end;
};

Region regions[SPACES];
long long dynamic_shared_bytes;
std::vector<Access> accesses;

void record(const void* address, size_t bytes, bool is_store) {
    const auto* const at = static_cast<const unsigned char*>(address);
    regions[DYNAMIC_SHARED] = {emulated::dynamic_shared(), emulated::dynamic_shared() + dynamic_shared_bytes};
    for (int space = 0; space < SPACES; ++space)
        if (at >= regions[space].begin && at < regions[space].end)
            accesses.push_back({threadIdx.y * blockDim.x + threadIdx.x, blockIdx.x, is_store,
                                static_cast<unsigned char>(space), static_cast<unsigned short>(bytes),
                                static_cast<unsigned int>(at - regions[space].begin)});
}

unsigned char* zeroed(Space space, size_t bytes) {
    auto* const memory = static_cast<unsigned char*>(aligned_alloc(256, (bytes + 255) / 256 * 256));
    memset(memory, 0, bytes);
    regions[space] = {memory, memory + bytes};
    return memory;
}

}  // namespace

#define TOLD(bytes)                                                                     \
    void __tsan_read##bytes(void* address) { record(address, bytes, false); }           \
    void __tsan_write##bytes(void* address) { record(address, bytes, true); }           \
    void __tsan_unaligned_read##bytes(void* address) { record(address, bytes, false); } \
    void __tsan_unaligned_write##bytes(void* address) { record(address, bytes, true); } \
    static_assert(bytes > 0)
extern "C" {
void __tsan_init() {}
TOLD(1);
TOLD(2);
TOLD(4);
TOLD(8);
TOLD(16);
void __tsan_read_range(void* address, size_t bytes) { record(address, bytes, false); }
void __tsan_write_range(void* address, size_t bytes) { record(address, bytes, true); }
}

// Copies are done and told at once: the kernel is known to wait for them where it must.
void emulated::Copies::issue(const Copy& copy) {
    if (copy.taken > 0) record(copy.global, copy.taken, false);
    record(copy.shared, copy.bytes, true);
    memset(copy.shared, 0, copy.bytes);
    memcpy(copy.shared, copy.global, copy.taken);
}
void emulated::Copies::end_group() {}
void emulated::Copies::complete(int) {}
void emulated::Copies::forget() {}

void emulated::Arguments::wrong_count() { fail("The kernel takes another number of arguments than it was given."); }

int main(int count, char** words) {
    std::vector<long long> given;
    for (int i = 1; i < count; ++i)
        given.push_back(atoll(words[i]));
    const long long m = given[5], n = given[6], k = given[7], row_step = given[8];
    const long long itemsize = given[9], product_itemsize = given[10];
    const bool has_workspace = given.size() > 11;
    dynamic_shared_bytes = given[3];
    unsigned char* const memory[] = {zeroed(A, m * row_step * itemsize), zeroed(B, k * row_step * itemsize),
                                     zeroed(C, m * row_step * product_itemsize),
                                     zeroed(WORKSPACE, has_workspace ? given[11] : 0)};
    const long long numbers[] = {m, n, k, row_step, row_step, row_step, 0, 0, 0, 1};
    regions[SHARED] = {emulated_kernel.shared_begin, emulated_kernel.shared_end};
    emulated::run_grid(emulated_kernel, {given[0], 1, given[1], given[2], dynamic_shared_bytes, given[4], 0},
                       {memory, numbers, has_workspace ? 4 : 3, 10});
    fwrite(accesses.data(), sizeof(Access), accesses.size(), stdout);
}
