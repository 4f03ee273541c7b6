// What times kernels, and what measures the device's own roofs.
//
// A sample is put on the stream as a whole while `wait_for` holds the stream: so what a launch costs the host lies
// outside the time that is taken. `stamp` before and after gives the clock that the multiprocessors ran at.
typedef unsigned long long Word;
typedef long long Index;

__device__ __forceinline__ Word nanoseconds() {
    Word now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
}

// Until the host raises `flag` to `ticket`, or so long. `flag` and `gave_up` lie in the host's page-locked memory.
extern "C" __global__ void wait_for(const volatile Word* flag, Word ticket, Word most_ns, volatile Word* gave_up) {
    const Word start = nanoseconds();
    while (*flag < ticket) {
        if (nanoseconds() - start < most_ns) continue;
        *gave_up = ticket;
        return;
    }
}

// Cycles and nanoseconds of each multiprocessor that a block of this launch runs on, in the host's memory.
extern "C" __global__ void stamp(volatile Word* stamps, Word multiprocessors) {
    unsigned int own;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(own));
    if (own >= multiprocessors) return;
    stamps[2 * own] = static_cast<Word>(clock64());
    stamps[2 * own + 1] = nanoseconds();
}

// Takes so long by the device's own timer: a kernel whose time is known.
extern "C" __global__ void spin(Word ns) {
    const Word start = nanoseconds();
    while (nanoseconds() - start < ns) {
    }
}

// ---- memory: 16 bytes at a time, past the first-level cache ----
__device__ __forceinline__ float4 load(const float4* from) {
    float4 value;
    asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
                 : "l"(from));
    return value;
}

__device__ __forceinline__ void store(float4* to, float4 value) {
    asm volatile("st.global.cg.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(value.x), "f"(value.y), "f"(value.z),
                 "f"(value.w)
                 : "memory");
}

constexpr int AT_ONCE = 4;  // loads of a thread on their way

// to = from, `passes` times: once for device memory, often for arrays that the second-level cache holds.
extern "C" __global__ void __launch_bounds__(256) copy(float4* to, const float4* from, Index count, int passes) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    const Index first = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (int pass = 0; pass < passes; ++pass)
        for (Index at = first; at < count; at += AT_ONCE * step) {
            float4 values[AT_ONCE];
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                if (at + i * step < count) values[i] = load(from + at + i * step);
#pragma unroll
            for (int i = 0; i < AT_ONCE; ++i)
                if (at + i * step < count) store(to + at + i * step, values[i]);
        }
}

// to = a + factor·b
extern "C" __global__ void __launch_bounds__(256)
    triad(float4* to, const float4* a, const float4* b, float factor, Index count) {
    const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
    const Index first = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (Index at = first; at < count; at += AT_ONCE * step) {
        float4 x[AT_ONCE], y[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (at + i * step < count) x[i] = load(a + at + i * step), y[i] = load(b + at + i * step);
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (at + i * step < count)
                store(to + at + i * step, make_float4(fmaf(factor, y[i].x, x[i].x), fmaf(factor, y[i].y, x[i].y),
                                                      fmaf(factor, y[i].z, x[i].z), fmaf(factor, y[i].w, x[i].w)));
    }
}

// ---- arithmetic: every thread runs CHAINS chains of multiply-adds side by side, each step waiting for its last ----
constexpr int CHAINS = 8, STEPS = 16;

__device__ __forceinline__ float step(float x, float a, float b) { return fmaf(x, a, b); }
__device__ __forceinline__ double step(double x, double a, double b) { return fma(x, a, b); }
__device__ __forceinline__ int step(int x, int a, int b) {  // as unsigned numbers, whose overflow is defined
    return static_cast<int>(static_cast<unsigned int>(x) * static_cast<unsigned int>(a) + static_cast<unsigned int>(b));
}
__device__ __forceinline__ unsigned int step(unsigned int x, unsigned int a, unsigned int b) {  // two halves
    unsigned int next;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(next) : "r"(x), "r"(a), "r"(b));
    return next;
}

template <typename Value>
__device__ __forceinline__ void run_chains(Value* out, Value a, Value b, int rounds) {
    Value chains[CHAINS];
#pragma unroll
    for (int i = 0; i < CHAINS; ++i)
        chains[i] = static_cast<Value>(threadIdx.x + i);
    for (int round = 0; round < rounds; ++round)
#pragma unroll
        for (int s = 0; s < STEPS; ++s)
#pragma unroll
            for (int i = 0; i < CHAINS; ++i)
                chains[i] = step(chains[i], a, b);
    Value sum = chains[0];
#pragma unroll
    for (int i = 1; i < CHAINS; ++i)
        sum = step(sum, a, chains[i]);
    out[static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x] = sum;  // or the compiler would drop it all
}

extern "C" __global__ void __launch_bounds__(256) chains_float32(float* out, float a, float b, int rounds) {
    run_chains(out, a, b, rounds);
}
extern "C" __global__ void __launch_bounds__(256) chains_float64(double* out, double a, double b, int rounds) {
    run_chains(out, a, b, rounds);
}
extern "C" __global__ void __launch_bounds__(256) chains_int32(int* out, int a, int b, int rounds) {
    run_chains(out, a, b, rounds);
}
extern "C" __global__ void __launch_bounds__(256)
    chains_float16(unsigned int* out, unsigned int a, unsigned int b, int rounds) {
    run_chains(out, a, b, rounds);
}
