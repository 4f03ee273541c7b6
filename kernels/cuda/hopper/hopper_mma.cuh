// Warpgroup matrix instructions (PTX `wgmma`) of one operand type, 64 rows by N columns. The file that includes this
// says which: HOPPER_MMA as in "k16.f32.bf16.bf16"; HOPPER_MMA_END, what follows the descriptors, as in ", 1, 1"; the
// type of a sum, HOPPER_SUM, and what inline assembly calls its register, HOPPER_SUM_REGISTER.
#pragma once

#include "hopper.cuh"

#ifndef EMULATED  // an emulation on the CPU brings its own words
// Tells the compiler that all threads of a warp have the same value, so that what follows from it is computed once for
// the warp.
__device__ __forceinline__ int warp_uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

// As inline assembly counts operands: 32 sums to a row.
#define SUMS_0                                                                                                       \
    "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29," \
    "%30,%31"
#define SUMS_32                                                                                                     \
    ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58," \
    "%59,%60,%61,%62,%63"
#define SUMS_32_TO_48 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define SUMS_64                                                                                                     \
    ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90," \
    "%91,%92,%93,%94,%95"
#define SUMS_64_TO_72 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define SUMS_64_TO_80 SUMS_64_TO_72 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define SUMS_64_TO_88 SUMS_64_TO_80 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define SUMS_96                                                                                                   \
    ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117," \
    "%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define SUMS_96_TO_112 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define SUMS_96_TO_120 SUMS_96_TO_112 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define SUMS_8(kind, sums, i)                                                                                     \
    kind(sums[i]), kind(sums[i + 1]), kind(sums[i + 2]), kind(sums[i + 3]), kind(sums[i + 4]), kind(sums[i + 5]), \
        kind(sums[i + 6]), kind(sums[i + 7])
#define SUMS_OF(kind, sums, i) \
    SUMS_8(kind, sums, i), SUMS_8(kind, sums, i + 8), SUMS_8(kind, sums, i + 16), SUMS_8(kind, sums, i + 24)

// `add`: sums += A·B over the bytes of one instruction's depth, 32 of each row. `begin`: sums = A·B. A thread holds of
// each 8 columns those at 2·(lane % 4), in rows lane / 4 and 8 more of its warp's 16: four sums, row by row.
template <int N>
struct Mma;

#define DEFINE_MMA(N, NUMBERS, FIRST, SECOND, ...)                                                         \
    template <>                                                                                            \
    struct Mma<N> {                                                                                        \
        static __device__ __forceinline__ void add(HOPPER_SUM (&sums)[N / 2], unsigned long long a,        \
                                                   unsigned long long b) {                                 \
            asm volatile(                                                                                  \
                "{\n.reg .pred added;\nsetp.eq.u32 added, 0, 0;\n"                                         \
                "wgmma.mma_async.sync.aligned.m64n" #N HOPPER_MMA " {" NUMBERS "}, %" #FIRST ", %" #SECOND \
                ", added" HOPPER_MMA_END ";\n}"                                                            \
                : __VA_ARGS__                                                                              \
                : "l"(a), "l"(b));                                                                         \
        }                                                                                                  \
        static __device__ __forceinline__ void begin(HOPPER_SUM (&sums)[N / 2], unsigned long long a,      \
                                                     unsigned long long b) {                               \
            asm volatile(                                                                                  \
                "{\n.reg .pred added;\nsetp.ne.u32 added, 0, 0;\n"                                         \
                "wgmma.mma_async.sync.aligned.m64n" #N HOPPER_MMA " {" NUMBERS "}, %" #FIRST ", %" #SECOND \
                ", added" HOPPER_MMA_END ";\n}"                                                            \
                : __VA_ARGS__                                                                              \
                : "l"(a), "l"(b));                                                                         \
        }                                                                                                  \
    };

// The same with A from registers. A thread holds, of 32 bytes of each of its two rows, words lane % 4 and lane % 4 + 4;
// its rows are lane / 4 and lane / 4 + 8, and the row changes first from one register to the next. The registers must
// not change before the instruction has been waited for.
template <int N>
struct RegisterMma;

#define DEFINE_REGISTER_MMA(N, NUMBERS, OPERANDS, ...)                                                                 \
    template <>                                                                                                        \
    struct RegisterMma<N> {                                                                                            \
        static __device__ __forceinline__ void add(HOPPER_SUM (&sums)[N / 2], const unsigned int (&a)[4],              \
                                                   unsigned long long b) {                                             \
            asm volatile(                                                                                              \
                "{\n.reg .pred added;\nsetp.eq.u32 added, 0, 0;\n"                                                     \
                "wgmma.mma_async.sync.aligned.m64n" #N HOPPER_MMA " {" NUMBERS "}, " OPERANDS ", added" HOPPER_MMA_END \
                ";\n}"                                                                                                 \
                : __VA_ARGS__                                                                                          \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                                 \
        }                                                                                                              \
    };

// wgmma writes its sums asynchronously, which the compiler does not know. After the wait for it, this keeps reads of
// the sums from being moved to before that wait. (CUTLASS calls it `warpgroup_fence_operand`.)
template <int COUNT>
__device__ __forceinline__ void fence_accumulators(HOPPER_SUM (&sums)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
        asm volatile("" : HOPPER_SUM_REGISTER(sums[i]));
}

DEFINE_MMA(64, SUMS_0, 32, 33, SUMS_OF(HOPPER_SUM_REGISTER, sums, 0))
DEFINE_MMA(96, SUMS_0 SUMS_32_TO_48, 48, 49, SUMS_OF(HOPPER_SUM_REGISTER, sums, 0),
           SUMS_8(HOPPER_SUM_REGISTER, sums, 32), SUMS_8(HOPPER_SUM_REGISTER, sums, 40))
DEFINE_MMA(128, SUMS_0 SUMS_32, 64, 65, SUMS_OF(HOPPER_SUM_REGISTER, sums, 0), SUMS_OF(HOPPER_SUM_REGISTER, sums, 32))
DEFINE_MMA(144, SUMS_0 SUMS_32 SUMS_64_TO_72, 72, 73, SUMS_OF(HOPPER_SUM_REGISTER, sums, 0),
           SUMS_OF(HOPPER_SUM_REGISTER, sums, 32), SUMS_8(HOPPER_SUM_REGISTER, sums, 64))
DEFINE_MMA(160, SUMS_0 SUMS_32 SUMS_64_TO_80, 80, 81, SUMS_OF(HOPPER_SUM_REGISTER, sums, 0),
           SUMS_OF(HOPPER_SUM_REGISTER, sums, 32), SUMS_8(HOPPER_SUM_REGISTER, sums, 64),
           SUMS_8(HOPPER_SUM_REGISTER, sums, 72))
DEFINE_MMA(176, SUMS_0 SUMS_32 SUMS_64_TO_88, 88, 89, SUMS_OF(HOPPER_SUM_REGISTER, sums, 0),
           SUMS_OF(HOPPER_SUM_REGISTER, sums, 32), SUMS_8(HOPPER_SUM_REGISTER, sums, 64),
           SUMS_8(HOPPER_SUM_REGISTER, sums, 72), SUMS_8(HOPPER_SUM_REGISTER, sums, 80))
DEFINE_MMA(192, SUMS_0 SUMS_32 SUMS_64, 96, 97, SUMS_OF(HOPPER_SUM_REGISTER, sums, 0),
           SUMS_OF(HOPPER_SUM_REGISTER, sums, 32), SUMS_OF(HOPPER_SUM_REGISTER, sums, 64))
DEFINE_MMA(224, SUMS_0 SUMS_32 SUMS_64 SUMS_96_TO_112, 112, 113, SUMS_OF(HOPPER_SUM_REGISTER, sums, 0),
           SUMS_OF(HOPPER_SUM_REGISTER, sums, 32), SUMS_OF(HOPPER_SUM_REGISTER, sums, 64),
           SUMS_8(HOPPER_SUM_REGISTER, sums, 96), SUMS_8(HOPPER_SUM_REGISTER, sums, 104))
DEFINE_MMA(240, SUMS_0 SUMS_32 SUMS_64 SUMS_96_TO_120, 120, 121, SUMS_OF(HOPPER_SUM_REGISTER, sums, 0),
           SUMS_OF(HOPPER_SUM_REGISTER, sums, 32), SUMS_OF(HOPPER_SUM_REGISTER, sums, 64),
           SUMS_8(HOPPER_SUM_REGISTER, sums, 96), SUMS_8(HOPPER_SUM_REGISTER, sums, 104),
           SUMS_8(HOPPER_SUM_REGISTER, sums, 112))
DEFINE_MMA(256, SUMS_0 SUMS_32 SUMS_64 SUMS_96, 128, 129, SUMS_OF(HOPPER_SUM_REGISTER, sums, 0),
           SUMS_OF(HOPPER_SUM_REGISTER, sums, 32), SUMS_OF(HOPPER_SUM_REGISTER, sums, 64),
           SUMS_OF(HOPPER_SUM_REGISTER, sums, 96))

DEFINE_REGISTER_MMA(64, SUMS_0, "{%32, %33, %34, %35}, %36", SUMS_OF(HOPPER_SUM_REGISTER, sums, 0))
DEFINE_REGISTER_MMA(128, SUMS_0 SUMS_32, "{%64, %65, %66, %67}, %68", SUMS_OF(HOPPER_SUM_REGISTER, sums, 0),
                    SUMS_OF(HOPPER_SUM_REGISTER, sums, 32))
DEFINE_REGISTER_MMA(144, SUMS_0 SUMS_32 SUMS_64_TO_72, "{%72, %73, %74, %75}, %76",
                    SUMS_OF(HOPPER_SUM_REGISTER, sums, 0), SUMS_OF(HOPPER_SUM_REGISTER, sums, 32),
                    SUMS_8(HOPPER_SUM_REGISTER, sums, 64))
DEFINE_REGISTER_MMA(160, SUMS_0 SUMS_32 SUMS_64_TO_80, "{%80, %81, %82, %83}, %84",
                    SUMS_OF(HOPPER_SUM_REGISTER, sums, 0), SUMS_OF(HOPPER_SUM_REGISTER, sums, 32),
                    SUMS_8(HOPPER_SUM_REGISTER, sums, 64), SUMS_8(HOPPER_SUM_REGISTER, sums, 72))
DEFINE_REGISTER_MMA(176, SUMS_0 SUMS_32 SUMS_64_TO_88, "{%88, %89, %90, %91}, %92",
                    SUMS_OF(HOPPER_SUM_REGISTER, sums, 0), SUMS_OF(HOPPER_SUM_REGISTER, sums, 32),
                    SUMS_8(HOPPER_SUM_REGISTER, sums, 64), SUMS_8(HOPPER_SUM_REGISTER, sums, 72),
                    SUMS_8(HOPPER_SUM_REGISTER, sums, 80))
DEFINE_REGISTER_MMA(192, SUMS_0 SUMS_32 SUMS_64, "{%96, %97, %98, %99}, %100", SUMS_OF(HOPPER_SUM_REGISTER, sums, 0),
                    SUMS_OF(HOPPER_SUM_REGISTER, sums, 32), SUMS_OF(HOPPER_SUM_REGISTER, sums, 64))
DEFINE_REGISTER_MMA(224, SUMS_0 SUMS_32 SUMS_64 SUMS_96_TO_112, "{%112, %113, %114, %115}, %116",
                    SUMS_OF(HOPPER_SUM_REGISTER, sums, 0), SUMS_OF(HOPPER_SUM_REGISTER, sums, 32),
                    SUMS_OF(HOPPER_SUM_REGISTER, sums, 64), SUMS_8(HOPPER_SUM_REGISTER, sums, 96),
                    SUMS_8(HOPPER_SUM_REGISTER, sums, 104))
DEFINE_REGISTER_MMA(240, SUMS_0 SUMS_32 SUMS_64 SUMS_96_TO_120, "{%120, %121, %122, %123}, %124",
                    SUMS_OF(HOPPER_SUM_REGISTER, sums, 0), SUMS_OF(HOPPER_SUM_REGISTER, sums, 32),
                    SUMS_OF(HOPPER_SUM_REGISTER, sums, 64), SUMS_8(HOPPER_SUM_REGISTER, sums, 96),
                    SUMS_8(HOPPER_SUM_REGISTER, sums, 104), SUMS_8(HOPPER_SUM_REGISTER, sums, 112))
DEFINE_REGISTER_MMA(256, SUMS_0 SUMS_32 SUMS_64 SUMS_96, "{%128, %129, %130, %131}, %132",
                    SUMS_OF(HOPPER_SUM_REGISTER, sums, 0), SUMS_OF(HOPPER_SUM_REGISTER, sums, 32),
                    SUMS_OF(HOPPER_SUM_REGISTER, sums, 64), SUMS_OF(HOPPER_SUM_REGISTER, sums, 96))
#endif
