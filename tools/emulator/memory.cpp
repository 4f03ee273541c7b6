#include "memory.hpp"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "launch.hpp"
#include "shared.hpp"

namespace emulated {

namespace {

unsigned char* reserve(long long bytes) {
    void* const room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) abort();
    return static_cast<unsigned char*>(room);
}

void open_pages(unsigned char* from, long long bytes) {
    const auto within = reinterpret_cast<uintptr_t>(from) % sysconf(_SC_PAGESIZE);
    if (mprotect(from - within, within + bytes, PROT_READ | PROT_WRITE) != 0) abort();
}

}  // namespace

long long MemoryLayout::extent() const {
    return matrices > 0 && rows > 0 ? (matrices - 1) * stride + (rows - 1) * pitch + row : 0;
}

template <typename Visit>
void Memory::for_each_row(Visit visit) const {
    for (long long matrix = 0; matrix < layout.matrices; ++matrix)
        for (long long row = 0; row < layout.rows; ++row)
            visit(first + matrix * layout.stride + row * layout.pitch, layout.row);
}

template <typename Visit>
void Memory::for_each_gap(Visit visit) const {
    unsigned char* end = first;
    for_each_row([&](unsigned char* row, long long bytes) {
        if (row > end) visit(end, row - end);
        end = row + bytes;
    });
}

Memory::Memory(const MemoryLayout& given) : layout(given) {
    if (layout.is_vast())
        first = reserve(layout.extent());
    else  // exact: the end is watched
        first = static_cast<unsigned char*>(malloc(layout.offset + layout.extent())) + layout.offset;
    if (layout.is_vast())
        for_each_row(open_pages);
    else
        close_gaps();
    fill();
}

Memory::~Memory() {
    if (layout.is_vast())
        munmap(first, layout.extent());
    else
        free(first - layout.offset);
}

void Memory::close_gaps() const {
    for_each_gap([](unsigned char* gap, long long bytes) {
        memset(gap, GARBAGE, bytes);
        __asan_poison_memory_region(gap, bytes);
    });
}

void Memory::fill() {
    long long left = layout.given;
    for_each_row([&](unsigned char* row, long long bytes) {
        const size_t part = std::min(left, bytes);
        memset(row, GARBAGE, bytes);
        if (fread(row, 1, part, stdin) != part) abort();
        left -= part;
    });
}

void Memory::give_back() {
    if (!layout.is_vast())
        for_each_gap([](unsigned char* gap, long long bytes) {
            __asan_unpoison_memory_region(gap, bytes);  // which watches whole groups of 8 bytes alone
            if (std::any_of(gap, gap + bytes, [](unsigned char byte) { return byte != GARBAGE; }))
                fail("The kernel wrote between the rows of a matrix.");
        });
    if (layout.returned) for_each_row([](const unsigned char* row, long long bytes) { fwrite(row, 1, bytes, stdout); });
}

}  // namespace emulated
