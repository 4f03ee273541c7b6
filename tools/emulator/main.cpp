// Launches of a library's kernel, of another where it is named, as they come on stdin; what they leave in memory goes to stdout.
#include <dlfcn.h>
#include <sanitizer/common_interface_defs.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "launch.hpp"
#include "memory.hpp"

using namespace emulated;

namespace {

bool read_numbers(long long* to, size_t count) {
    const size_t found = fread(to, sizeof(long long), count, stdin);
    if (found != 0 && found != count) abort();
    return found == count;
}

const Kernel& load(const char* path, const char* name) {
    void* const library = dlopen(path, RTLD_NOW);
    const std::string symbol = name ? std::string("emulated_kernel_") + name : "emulated_kernel";
    void* const kernel = library ? dlsym(library, symbol.c_str()) : nullptr;
    if (!kernel) fail("%s", dlerror());
    return *static_cast<const Kernel*>(kernel);
}

struct Head {
    Grid grid;
    long long numbers, memories;
};

void run_launch(const Kernel& kernel, const Head& head) {
    std::vector<long long> numbers(head.numbers);
    if (!read_numbers(numbers.data(), numbers.size())) abort();
    std::deque<Memory> memories;
    std::vector<unsigned char*> addresses;
    for (int index = 0; index < head.memories; ++index) {
        MemoryLayout layout;
        if (!read_numbers(&layout.offset, sizeof(layout) / sizeof(long long))) abort();
        addresses.push_back(memories.emplace_back(layout).address());
    }
    const auto memory_count = static_cast<int>(head.memories), number_count = static_cast<int>(head.numbers);
    run_grid(kernel, head.grid, {addresses.data(), numbers.data(), memory_count, number_count});
    for (Memory& memory : memories)
        memory.give_back();
}

}  // namespace

void emulated::Arguments::wrong_count() { fail("The kernel takes another number of arguments than it was given."); }

extern "C" void __ubsan_on_report() { say_where(); }  // the other sanitizer's callback

int main(int, char** words) {
    __sanitizer_set_death_callback(say_where);
    const Kernel& kernel = load(words[1], words[2]);  // null without a name
    Head head;
    while (read_numbers(&head.grid.x, sizeof(head) / sizeof(long long)))
        run_launch(kernel, head);
}
