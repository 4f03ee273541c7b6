// CUDA's words in plain C++, so that a kernel's own source runs on the CPU under sanitizers. It is compiled once for
// each kernel and config and so includes nothing; what stands behind the words is in block.cpp, compiled once.
#ifndef EMULATED
#define EMULATED

#define __global__
#define __device__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __restrict__
#define __align__(bytes) __attribute__((aligned(bytes)))
// One block runs at a time, so one copy is enough; a kernel of clusters has dynamic shared memory alone. In a section
// of its own it can be found, and filled with garbage.
#define __shared__ static __attribute__((section("block_shared")))
#define DYNAMIC_SHARED(name) unsigned char* const name = emulated::dynamic_shared()

struct Dim3 {
    unsigned int x, y, z;
};
extern Dim3 threadIdx, blockIdx, blockDim, gridDim;  // of the thread that runs now
constexpr int warpSize = 32;

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(8) uint2 {
    unsigned int x, y;
};
struct alignas(16) uint4 {
    unsigned int x, y, z, w;
};

namespace emulated {

// A place in a kernel's source. As a default argument, here() is where the call stands.
struct Place {
    static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }

    const char* file;
    int line;
};

unsigned char* dynamic_shared();                   // as large as the launch says, to the byte
const void* shared_of(int rank, const void* own);  // the same place in another block of the cluster
void wait_for_cluster(Place);
void wait_for_block(Place);
void wait_for_warp(unsigned int mask, Place);
void look_again(Place);  // once others had their turn: it waits for what they do, or fails later
void note_change();      // of what anybody may look for
// Puts down `bytes` bytes at `value`, and gives those of `lane` once all lanes of the mask have put down theirs.
void exchange(unsigned int mask, int lane, void* value, int bytes, Place);
int lane();
void come_together(Place);  // all threads of the warp do, or it fails later; none waits for others, so no order is made
void issue_copy(void* shared, const void* global, int bytes, int taken);
void require_multiple(const char* what, unsigned long long number, unsigned long long of);  // else fails
void end_group();
void complete_groups(int pending);

}  // namespace emulated

// ---- threads of a block ----
inline void __syncthreads(emulated::Place at = emulated::Place::here()) { emulated::wait_for_block(at); }
inline void __syncwarp(unsigned int mask = 0xFFFFFFFFu, emulated::Place at = emulated::Place::here()) {
    emulated::wait_for_warp(mask, at);
}
inline void __nanosleep(unsigned int) {}
inline void __threadfence() {}  // one thread runs at a time, and sees what all before it wrote

template <typename Value>
Value __shfl_sync(unsigned int mask, Value value, int lane, emulated::Place at = emulated::Place::here()) {
    emulated::exchange(mask, lane, &value, sizeof(Value), at);
    return value;
}
template <typename Value>
Value __shfl_xor_sync(unsigned int mask, Value value, int lanes, emulated::Place at = emulated::Place::here()) {
    emulated::exchange(mask, emulated::lane() ^ lanes, &value, sizeof(Value), at);
    return value;
}
template <typename Value>
Value __shfl_down_sync(unsigned int mask, Value value, int offset, emulated::Place at = emulated::Place::here()) {
    const int lane = emulated::lane() + offset;
    emulated::exchange(mask, lane < warpSize ? lane : emulated::lane(), &value, sizeof(Value), at);
    return value;
}

// ---- clusters (cluster.cuh) ----
inline void cluster_barrier(emulated::Place at = emulated::Place::here()) { emulated::wait_for_cluster(at); }
template <typename Value>
const Value* at_rank(const Value* shared, int rank) {
    return static_cast<const Value*>(emulated::shared_of(rank, shared));
}

// ---- atomics: no other thread runs in between ----
template <typename Value>
Value atomicAdd(Value* place, Value value) {
    const Value before = *place;
    *place = before + value;
    return before;
}
template <typename Value>
Value atomicMax(Value* place, Value value) {
    const Value before = *place;
    if (value > before) *place = value;
    return before;
}

// ---- asynchronous copies (async.cuh): done only when their group is waited for ----
template <int BYTES>
void copy_part_async(void* shared, const void* global, int bytes) {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "an asynchronous copy has 4, 8 or 16 bytes");
    emulated::issue_copy(shared, global, BYTES, bytes);
}
template <int BYTES>
void copy_async(void* shared, const void* global, bool inside) {
    copy_part_async<BYTES>(shared, global, inside ? BYTES : 0);
}
inline void commit_copies() { emulated::end_group(); }
template <int PENDING>
void wait_copies() {
    emulated::complete_groups(PENDING);
}

// ---- arithmetic ----
template <typename One, typename Other>
constexpr auto min(One one, Other other) {
    return other < one ? other : one;
}
template <typename One, typename Other>
constexpr auto max(One one, Other other) {
    return one < other ? other : one;
}
inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline double __dmul_rn(double one, double other) { return one * other; }  // this compiler fuses nothing by itself
inline double __dadd_rn(double one, double other) { return one + other; }
inline double ldexp(double value, int exponent) { return __builtin_ldexp(value, exponent); }
inline double frexp(double value, int* exponent) { return __builtin_frexp(value, exponent); }
inline double rint(double value) { return __builtin_rint(value); }
inline double trunc(double value) { return __builtin_trunc(value); }
inline double exp(double value) { return __builtin_exp(value); }
inline double erfc(double value) { return __builtin_erfc(value); }
inline float expf(float value) { return __builtin_expf(value); }
inline float erfcf(float value) { return __builtin_erfcf(value); }
inline float __fdividef(float one, float other) { return one / other; }
inline float sqrtf(float value) { return __builtin_sqrtf(value); }
inline double sqrt(double value) { return __builtin_sqrt(value); }
inline double fabs(double value) { return __builtin_fabs(value); }
inline bool isfinite(double value) { return __builtin_isfinite(value); }
inline double fmax(double left, double right) { return __builtin_fmax(left, right); }
template <typename Value>
Value __ldg(const Value* place) {
    return *place;
}
template <typename Value>
Value __ldcg(const Value* place) {
    return *place;
}
template <typename Value>
void __stcg(Value* place, Value value) {
    *place = value;
}

// ---- bits ----
inline float __uint_as_float(unsigned int bits) { return __builtin_bit_cast(float, bits); }
inline unsigned int __float_as_uint(float value) { return __builtin_bit_cast(unsigned int, value); }
inline long long __double_as_longlong(double value) { return __builtin_bit_cast(long long, value); }
inline double __longlong_as_double(long long bits) { return __builtin_bit_cast(double, bits); }
inline int hidden(int value) { return value; }  // hidden.cuh
inline double __hiloint2double(int high, int low) {
    return __longlong_as_double(static_cast<long long>(high) << 32 | static_cast<unsigned int>(low));
}
inline unsigned int __umulhi(unsigned int one, unsigned int other) {
    return static_cast<unsigned int>(static_cast<unsigned long long>(one) * other >> 32);
}
inline int __mulhi(int one, int other) { return static_cast<int>(static_cast<long long>(one) * other >> 32); }
inline unsigned int __dp4a(unsigned int one, unsigned int other, unsigned int sum) {
    for (int bits = 0; bits < 32; bits += 8)
        sum += (one >> bits & 0xFF) * (other >> bits & 0xFF);
    return sum;
}
inline unsigned long long __umul64hi(unsigned long long one, unsigned long long other) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(one) * other >> 64);
}
inline unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
    return static_cast<unsigned int>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
#if defined(__aarch64__)
typedef __fp16 HalfOfCompiler;  // which this compiler knew before the other name
#else
typedef _Float16 HalfOfCompiler;
#endif
inline float float_of_half(unsigned short bits) { return __builtin_bit_cast(HalfOfCompiler, bits); }
inline unsigned short half_of_float(float value) {
    return __builtin_bit_cast(unsigned short, static_cast<HalfOfCompiler>(value));
}

#endif
