// The words of hopper.cuh and hopper_mma.cuh that kernels on tensor cores use, in plain C++: of those that take their
// first operand from registers, of words or of int8, and of those that take both from shared memory, along k. A product
// is computed only when it is waited for, out of registers and shared memory as they are then; registers must still
// hold what they held when it began. Clusters have one block.
#pragma once
#include "hopper_emulated.hpp"
//
#include "lines.hpp"

namespace emulated {

constexpr int MAX_THREADS = 1024, MAX_PENDING = 8, MAX_MEETINGS = 16, WORDS = 4, ROW_BYTES = 128, ROWS_OF_WARP = 8;
constexpr unsigned int WARPGROUP_THREADS = 128;

#if defined(DTYPE_INT8) || defined(DTYPE_FLOAT64)
typedef int Sum;
constexpr Sum (*ADDED)(Sum, const Line&, const Line&) = added_int8;
#else
typedef float Sum;
#if defined(DTYPE_FLOAT16)
constexpr Sum (*ADDED)(Sum, const Line&, const Line&) = added_float16;
#elif defined(DTYPE_BFLOAT16)
constexpr Sum (*ADDED)(Sum, const Line&, const Line&) = added_bfloat16;
#elif defined(DTYPE_FLOAT8_E4M3)
constexpr Sum (*ADDED)(Sum, const Line&, const Line&) = added_float8;
#else
constexpr Sum (*ADDED)(Sum, const Line&, const Line&) = added_float32;
#endif
#endif

constexpr Sum GARBAGE = static_cast<Sum>(1e9);  // in sums that an instruction begins, until it is waited for

struct Pending {
    Sum* sums;
    const unsigned int* words;  // null where A lies in shared memory
    unsigned int held[WORDS];   // when it began
    unsigned int a, b;          // places in shared memory
    int columns, group;
    bool begins;  // sums anew
};

struct Issued {
    Pending pending[MAX_PENDING];
    int count, group;  // products under way, and the number of the group that is open
    int completed;     // the number of the first group that may not be
    bool fenced;       // since registers were written
};

inline Issued issued[MAX_THREADS];
inline unsigned int put_down[2][MAX_THREADS][WORDS];  // of one product and of the next: some still read the one
inline unsigned int rows_at[MAX_THREADS];
inline int turns[MAX_THREADS];
inline int here[MAX_MEETINGS], meetings[MAX_MEETINGS];

inline Line line_at(unsigned int at) {
    Line line;
    for (int chunk = 0; chunk < 2; ++chunk, at += 16)
        *reinterpret_cast<uint4*>(line.words + chunk * 4) =
            *reinterpret_cast<const uint4*>(at_address(at ^ at / ROW_BYTES % 8 * 16));
    return line;
}

// Sums of rows lane / 4, `upper`, and 8 more, `lower`, of columns lane % 4 · 2 and the next of each eight.
inline void add_lines_of(const Pending& product, const Line& upper, const Line& lower) {
    for (int i = 0; i < product.columns / 2; i += i % 2 ? 3 : 1) {  // and i + 2, of the same column
        const int column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
        const Line other = line_at(product.b + column * ROW_BYTES);
        product.sums[i] = ADDED(product.begins ? 0 : product.sums[i], upper, other);
        product.sums[i + 2] = ADDED(product.begins ? 0 : product.sums[i + 2], lower, other);
    }
}

// Of warps of a warpgroup 16 rows each, of a tile of A in shared memory.
inline void complete_from_shared(const Pending& product) {
    const int lane = threadIdx.x % warpSize, first = threadIdx.x / warpSize % 4 * 16 + lane / 4;
    add_lines_of(product, line_at(product.a + first * ROW_BYTES), line_at(product.a + (first + 8) * ROW_BYTES));
}

// A's words: lane % 4 of both rows, then those four steps on ("Register Fragments for wgmma.mma_async.m64nNk8", PTX ISA).
inline void complete(const Pending& product) {
    if (!product.words) return complete_from_shared(product);
    auto& now = put_down[turns[threadIdx.x] ^= 1];
    for (int i = 0; i < WORDS; ++i) {
        if (product.words[i] != product.held[i]) fail("A register changed under a product that reads it.");
        now[threadIdx.x][i] = product.words[i];
    }
    wait_for_warp(0xFFFFFFFFu, Place::here());
    Line rows[2];
    for (int word = 0; word < 8; ++word)
        for (int row = 0; row < 2; ++row)
            rows[row].words[word] = now[threadIdx.x / 4 * 4 + word % 4][word / 4 * 2 + row];
    add_lines_of(product, rows[0], rows[1]);
}

inline void begin_product(Sum* sums, const unsigned int* words, unsigned long long b, int columns) {
    Issued& mine = issued[threadIdx.x];
    if (!mine.fenced) fail("A product reads registers that were written after the last fence.");
    if (mine.count == MAX_PENDING) fail("More than %d products are under way.", MAX_PENDING);
    mine.pending[mine.count++] = {
        sums,       words, {words[0], words[1], words[2], words[3]}, 0, static_cast<unsigned int>(b), columns,
        mine.group, false};
}

inline void begin_product_from_shared(Sum* sums, unsigned long long a, unsigned long long b, int columns,
                                      bool begins = false) {
    Issued& mine = issued[threadIdx.x];
    if (!mine.fenced) fail("A product begins before the first fence.");
    if (mine.count == MAX_PENDING) fail("More than %d products are under way.", MAX_PENDING);
    mine.pending[mine.count++] = {
        sums, nullptr, {}, static_cast<unsigned int>(a), static_cast<unsigned int>(b), columns, mine.group, begins};
    for (int i = 0; begins && i < columns / 2; ++i)
        sums[i] = GARBAGE;
}

// Until all threads of this warpgroup have come so far with their groups.
inline void wait_for_warpgroup(int Issued::* far, int group, Place at) {
    const unsigned int first = threadIdx.x / WARPGROUP_THREADS * WARPGROUP_THREADS;
    for (unsigned int thread = first; thread < first + WARPGROUP_THREADS; ++thread)
        while (issued[thread].*far < group)
            look_again(at);
}

// All but so many groups. Of what warps multiply out of shared memory together, none goes on before all are done: one
// thread says for all of them that it may be written again.
inline void complete_products(int groups, Place at) {
    Issued& mine = issued[threadIdx.x];
    const int last = mine.group - groups;
    bool together = false;
    int done = 0;
    for (; done < mine.count && mine.pending[done].group < last; ++done)
        together = together || !mine.pending[done].words;
    if (together) wait_for_warpgroup(&Issued::group, last, at);
    for (int i = 0; i < done; ++i)
        complete(mine.pending[i]);
    mine.count -= done;
    for (int i = 0; i < mine.count; ++i)
        mine.pending[i] = mine.pending[i + done];
    mine.completed = last;
    note_change();
    if (together) wait_for_warpgroup(&Issued::completed, last, at);
}

}  // namespace emulated

inline int cluster_rank() { return 0; }
inline void arrive_at_rank(unsigned int, int) { emulated::fail("There is no other block in the cluster."); }
inline void load_box_for(unsigned short, unsigned int, const TensorMap&, unsigned int, int, int, int) {
    emulated::fail("There is no other block in the cluster.");
}
template <int REGISTERS>
void give_registers() {}
template <int REGISTERS>
void take_registers() {}

inline void load_run(unsigned int shared, const void* global, unsigned int barrier, int bytes) {
    emulated::begin_load(shared, TensorMap::of_run(global, bytes), barrier, 0, 0, 0);
}
inline void load_run_for(unsigned short, unsigned int, const void*, unsigned int, int) {
    emulated::fail("There is no other block in the cluster.");
}

inline int warp_uniform(int value) { return value; }  // what is the same in all threads of a warp
inline unsigned long long tile_descriptor(unsigned int shared, int) { return shared; }
inline unsigned long long offset_descriptor(unsigned long long descriptor, int bytes) { return descriptor + bytes; }
inline void wgmma_fence() { emulated::issued[threadIdx.x].fenced = true; }
inline void wgmma_commit_group() {
    ++emulated::issued[threadIdx.x].group;
    emulated::note_change();
}
template <int PENDING>
void wgmma_wait_group(emulated::Place at = emulated::Place::here()) {
    emulated::complete_products(PENDING, at);
}
template <int COUNT>
void fence_accumulators(emulated::Sum (&)[COUNT]) {}

template <int N>
struct Mma {
    static void begin(emulated::Sum (&sums)[N / 2], unsigned long long a, unsigned long long b) {
        emulated::begin_product_from_shared(sums, a, b, N, true);
    }
    static void add(emulated::Sum (&sums)[N / 2], unsigned long long a, unsigned long long b) {
        emulated::begin_product_from_shared(sums, a, b, N);
    }
};
template <int N>
struct RegisterMma {
    static void add(emulated::Sum (&sums)[N / 2], const unsigned int (&a)[4], unsigned long long b) {
        emulated::begin_product(sums, a, b, N);
    }
};

inline void read_two(unsigned int* to, unsigned int shared) {
    emulated::issued[threadIdx.x].fenced = false;
    __builtin_memcpy(to, emulated::at_address(shared), 2 * sizeof(unsigned int));
}
inline void read_matrices_transposed(unsigned int (&to)[4], unsigned int shared) {
    using namespace emulated;
    const int lane = threadIdx.x % warpSize, first = threadIdx.x - lane;
    rows_at[threadIdx.x] = shared;
    wait_for_warp(0xFFFFFFFFu, Place::here());
    for (int matrix = 0; matrix < 4; ++matrix) {
        unsigned short two[2];
        for (int i = 0; i < 2; ++i)
            __builtin_memcpy(&two[i], at_address(rows_at[first + matrix * 8 + lane % 4 * 2 + i]) + lane / 4 * 2, 2);
        to[matrix] = two[0] | static_cast<unsigned int>(two[1]) << 16;
    }
    wait_for_warp(0xFFFFFFFFu, Place::here());  // until all have read, so that nobody puts down the next
}
inline unsigned int select_bytes(unsigned int first, unsigned int second, unsigned int which) {
    const unsigned long long eight = static_cast<unsigned long long>(second) << 32 | first;
    unsigned int bytes = 0;
    emulated::issued[threadIdx.x].fenced = false;
    for (int i = 0; i < 4; ++i)
        bytes |= static_cast<unsigned int>(eight >> (which >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
    return bytes;
}
inline void write_words(unsigned int shared, unsigned int first, unsigned int second) {
    const unsigned int two[2] = {first, second};
    __builtin_memcpy(emulated::at_address(shared), two, sizeof(two));
}

#if defined(DTYPE_FLOAT16) || defined(DTYPE_BFLOAT16) || defined(OUTPUT_BFLOAT16)
inline unsigned int narrowed(float low, float high) {
    const auto bits_of = [](float value) -> unsigned int {
#if defined(DTYPE_FLOAT16)
        return half_of_float(value);
#else
        const unsigned int bits = __float_as_uint(value);
        return value != value ? bits >> 16 | 0x40 : (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
#endif
    };
    return bits_of(low) | bits_of(high) << 16;
}
inline void store_matrices(unsigned int shared, const unsigned int (&pairs)[4]) {
    using namespace emulated;
    const int lane = threadIdx.x % warpSize, first = threadIdx.x - lane;
    rows_at[threadIdx.x] = shared;
    wait_for_warp(0xFFFFFFFFu, Place::here());
    for (int matrix = 0; matrix < 4; ++matrix)
        __builtin_memcpy(at_address(rows_at[first + matrix * 8 + lane / 4] + lane % 4 * 4), &pairs[matrix], 4);
    wait_for_warp(0xFFFFFFFFu, Place::here());  // until all have written, so that nobody puts down the next
}
#endif

inline void write_two(unsigned int shared, emulated::Sum first, emulated::Sum second) {
    const emulated::Sum two[2] = {first, second};
    __builtin_memcpy(emulated::at_address(shared), two, sizeof(two));
}

// Block scales (hopper_scales.cuh).
struct Scales {
    const float *a, *b;
    int pitch_a, pitch_b, stride_a, stride_b;

    template <typename Arguments>
    static Scales of(Arguments& given) {
        const auto memory = [&] { return reinterpret_cast<const float*>(given.next_memory()); };
        const auto number = [&] { return static_cast<int>(given.next_number()); };
        return Scales{memory(), memory(), number(), number(), number(), number()};
    }
};
inline float read_scale(const float* from) { return *from; }
inline void read_two_scales(float (&to)[2], const float* from) {
    if (reinterpret_cast<unsigned long long>(from) % 8) emulated::fail("Two scales are read across 8 bytes.");
    to[0] = from[0];
    to[1] = from[1];
}

inline void sync_some(int number, int threads, emulated::Place at) {
    using namespace emulated;
    const int meeting = meetings[number];
    if (++here[number] == threads) {
        here[number] = 0;
        ++meetings[number];
        note_change();
    }
    while (meetings[number] == meeting)
        look_again(at);
}
inline void sync_warp_pair(int number, emulated::Place at = emulated::Place::here()) { sync_some(number, 2 * warpSize, at); }
inline void sync_warpgroup(int number, emulated::Place at = emulated::Place::here()) {
    sync_some(number, emulated::WARPGROUP_THREADS, at);
}

// ---- what follows a product (hopper_warp_epilogue.cuh) ----
inline void copy_chunk(unsigned int shared, const void* global, int bytes) {
    copy_part_async<16>(emulated::at_address(shared), global, bytes);
}
inline unsigned int read_word(unsigned int shared) {
    unsigned int word;
    __builtin_memcpy(&word, emulated::at_address(shared), sizeof word);
    return word;
}
