// What a launch is to the program: the kernel's arguments, the grid, and the order in which its threads take turns.
#pragma once

namespace emulated {

struct Arguments {
    unsigned char* const* memory;
    const long long* numbers;
    int memories, number_count;

    unsigned char* next_memory() {
        if (--memories < 0) wrong_count();
        return *memory++;
    }
    long long next_number() {
        if (--number_count < 0) wrong_count();
        return *numbers++;
    }
    void expect_none() const {
        if (memories != 0 || number_count != 0) wrong_count();
    }
    [[noreturn]] static void wrong_count();
};

// What a library made of kernel.cpp shows, under the name `emulated_kernel`; behind it, an underscore and the names of others.
struct Kernel {
    void (*call)(const Arguments&);            // as one thread
    unsigned char *shared_begin, *shared_end;  // its `__shared__` variables
};

// Says what is wrong, and where, and ends the program.
[[noreturn]] void fail(const char* sentence, ...) __attribute__((format(printf, 1, 2)));
void say_where();  // which launch, and which thread

struct Grid {
    long long x, z, block_x, block_y, shared_bytes;
    long long cluster;  // blocks next to each other on x that run together
    long long order;  // in which blocks, warps and lanes take turns; kinds as in order.hpp
    long long late;   // the thread of each cluster that has a turn only where no other goes on; negative: none
};

void run_grid(const Kernel&, const Grid&, const Arguments&);

}  // namespace emulated
