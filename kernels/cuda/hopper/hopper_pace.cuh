// Keeps the clusters of a deep product in step. Those of a wave read the same rows of A and columns of B, which the L2
// has for a while. Nothing else makes them read at the same time: where tiles are deep, some fall so far behind that
// memory has to be read again for them, which then slows all.
//
// Each cluster counts, in one word for all, every few stages that its producer asks for, and goes on when all together
// have counted as often as if none were behind by more. It is a matter of speed alone: a cluster that has looked too often in
// one wait goes on and waits no more in this launch, so nothing depends on blocks being resident together.
//
// Compiled in with PACED alone, where the launch gives the word, which starts as zero.
#pragma once

#ifdef PACED

#ifndef PACE_STEPS
#define PACE_STEPS 16
#endif
#ifndef PACE_LEAD
#define PACE_LEAD 1
#endif
#ifndef MAX_LOOKS
#define MAX_LOOKS 256
#endif
constexpr int LOOK_NANOSECONDS = 100;  // between two

class Pace {
    unsigned int* const counted;  // by all clusters
    const int clusters;
    int waves;                // in which this block counts
    unsigned int before = 0;  // counted by each cluster that is not behind
    bool waits = true;

public:
    // `rank`: of the block in its cluster, of which the first counts. Only in waves that are full all count as often.
    __device__ __forceinline__ Pace(unsigned int* counted, int clusters, int full_waves, int rank)
        : counted(counted), clusters(clusters), waves(rank == 0 ? full_waves : 0) {}

    // Before the producer asks for that stage of a tile in that wave.
    __device__ __forceinline__ void keep(int wave, int step) {
        if (wave >= waves || step % PACE_STEPS != 0) return;
#if PACE_LEAD > 8
        wait(wanted());
        count();
#else
        count();
        wait((before - PACE_LEAD) * clusters);
#endif
    }

    // How often all have counted where none is a whole interval behind.
    __device__ __forceinline__ unsigned int wanted() const { return before * clusters; }

    __device__ __forceinline__ void count() {
        atomicAdd(counted, 1u);
        ++before;
    }

    __device__ __forceinline__ void wait(unsigned int wanted) {
        for (int looks = MAX_LOOKS; waits && !is_reached(wanted); __nanosleep(LOOK_NANOSECONDS))
            waits = --looks > 0;
    }

    // The word may wrap.
    __device__ __forceinline__ bool is_reached(unsigned int wanted) const {
        return static_cast<int>(*static_cast<volatile unsigned int*>(counted) - wanted) >= 0;
    }
};

#define PACE_PARAMETER , unsigned int* counted
#define PACE_WORD , counted

#else

#define PACE_PARAMETER
#define PACE_WORD

#endif
