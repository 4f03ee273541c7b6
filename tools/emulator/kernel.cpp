// One kernel in one config, as a library: its source, and a way to call it that is the same for all kernels.
#include "emulated.hpp"  // before all else: the source has no other words

#include SOURCE

#include "launch.hpp"

// The linker's names for the section of `__shared__` variables; null where a kernel has none.
extern "C" unsigned char __start_block_shared[] __attribute__((weak, visibility("hidden")));
extern "C" unsigned char __stop_block_shared[] __attribute__((weak, visibility("hidden")));

namespace emulated {

namespace {

template <typename Parameter>
struct Next {  // of the arguments that are given: pointers and numbers are counted apart
    static Parameter of(Arguments& given) { return Parameter::of(given); }
};

template <typename Element>
struct Next<Element*> {
    static Element* of(Arguments& given) { return reinterpret_cast<Element*>(given.next_memory()); }
};
template <>
struct Next<long long> {
    static long long of(Arguments& given) { return given.next_number(); }
};
template <>
struct Next<int> {
    static int of(Arguments& given) { return static_cast<int>(given.next_number()); }
};

template <typename... Parameters>
struct Call {  // braces, because there arguments are taken from left to right
    Call(void (*kernel)(Parameters...), Parameters... given) { kernel(given...); }
};

template <typename... Parameters>
void call(void (*kernel)(Parameters...), Arguments given) {
    Call<Parameters...>{kernel, Next<Parameters>::of(given)...};
    given.expect_none();
}

void call_kernel(const Arguments& given) { call(KERNEL, given); }

}  // namespace

}  // namespace emulated

extern "C" const emulated::Kernel emulated_kernel;
const emulated::Kernel emulated_kernel = {emulated::call_kernel, __start_block_shared, __stop_block_shared};

// Others of the same source, each under its name too: OTHER_KERNELS is a row of these.
#define OTHER_KERNEL(name)                                            \
    namespace emulated {                                              \
    namespace {                                                       \
    void call_##name(const Arguments& given) { call(::name, given); } \
    }                                                                 \
    }                                                                 \
    extern "C" const emulated::Kernel emulated_kernel_##name;         \
    const emulated::Kernel emulated_kernel_##name = {emulated::call_##name, __start_block_shared, __stop_block_shared};
#ifdef OTHER_KERNELS
OTHER_KERNELS
#endif
