// CUDA's words in plain C++, so that a kernel runs on the CPU under the address and undefined-behaviour sanitizers.
// Blocks run one after the other; the threads of a block are real threads, and a barrier is a real barrier.
#ifndef EMULATED  // and no pragma: this file is compiled on its own too, once for all kernels
#define EMULATED

#include <barrier>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(threads)
#define __restrict__
#define __shared__ static  // one block at a time, so one copy is enough

using std::fma;
using std::isfinite;
using std::ldexp;

struct Dim3 {
    unsigned int x = 0, y = 0, z = 0;
};
inline thread_local Dim3 threadIdx, blockIdx;
inline Dim3 gridDim, blockDim;

inline std::unique_ptr<std::barrier<>> block_barrier;
inline std::vector<std::unique_ptr<std::barrier<>>> warp_barriers;
inline std::vector<unsigned long long> exchanged;  // one word a thread, for shuffles
inline std::mutex atomic;

inline unsigned int linear_thread() { return threadIdx.y * blockDim.x + threadIdx.x; }
inline void __syncthreads() { block_barrier->arrive_and_wait(); }

template <typename Value>
Value __shfl_down_sync(unsigned int, Value value, int offset) {
    static_assert(sizeof(Value) == 8, "shuffles here are of 64-bit words");
    const unsigned int own = linear_thread(), lane = own % 32;
    std::memcpy(&exchanged[own], &value, 8);
    warp_barriers[own / 32]->arrive_and_wait();
    Value other = value;
    if (lane + offset < 32) std::memcpy(&other, &exchanged[own + offset], 8);
    warp_barriers[own / 32]->arrive_and_wait();
    return other;
}

template <typename Value>
void atomicAdd(Value* place, Value value) {
    const std::lock_guard<std::mutex> held(atomic);
    *place += value;
}

inline float __uint_as_float(unsigned int bits) {
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
}
inline unsigned int __float_as_uint(float value) {
    unsigned int bits;
    std::memcpy(&bits, &value, 4);
    return bits;
}
inline float float_of_half(unsigned short bits) {
    _Float16 value;
    std::memcpy(&value, &bits, 2);
    return value;
}
inline unsigned short half_of_float(float value) {
    const _Float16 rounded = static_cast<_Float16>(value);
    unsigned short bits;
    std::memcpy(&bits, &rounded, 2);
    return bits;
}

// Runs `kernel` in every thread of every block.
inline void launch(Dim3 grid, Dim3 block, const std::function<void()>& kernel) {
    gridDim = grid;
    blockDim = block;
    const unsigned int threads = block.x * block.y;
    block_barrier = std::make_unique<std::barrier<>>(threads);
    warp_barriers.clear();
    for (unsigned int first = 0; first < threads; first += 32)
        warp_barriers.push_back(std::make_unique<std::barrier<>>(threads - first < 32 ? threads - first : 32));
    exchanged.assign(threads, 0);
    std::barrier<> between_blocks(threads);  // a thread may leave the kernel early, but not the block
    std::vector<std::thread> running;
    for (unsigned int index = 0; index < threads; ++index)
        running.emplace_back([&, index] {
            threadIdx = {index % block.x, index / block.x, 0};
            for (unsigned int z = 0; z < grid.z; ++z)
                for (unsigned int x = 0; x < grid.x; ++x) {
                    blockIdx = {x, 0, z};
                    kernel();
                    between_blocks.arrive_and_wait();
                }
        });
    for (std::thread& thread : running)
        thread.join();
}

// Memory of exactly so many elements: one past its end is an error that the sanitizer reports.
template <typename Element>
struct Buffer {
    explicit Buffer(size_t count) : bytes(count * sizeof(Element)), elements(static_cast<Element*>(malloc(bytes))) {}
    ~Buffer() { free(elements); }
    void read() {
        if (fread(elements, 1, bytes, stdin) != bytes) abort();
    }
    void write() const { fwrite(elements, 1, bytes, stdout); }

    size_t bytes;
    Element* elements;
};

#endif
