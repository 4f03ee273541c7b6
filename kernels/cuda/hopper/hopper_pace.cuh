// Keeps the clusters of a deep product in step. Those of a wave read the same rows of A and columns of B, which the L2
// has for a while. Nothing else makes them read at the same time: where tiles are deep, some fall so far behind that
// memory has to be read again for them, which then slows all.
//
// Each cluster counts, in one word for all, every few stages that its producer asks for. Before it counts again it
// waits until all have counted as often, so none is two intervals ahead of another. It is a matter of speed alone:
// whoever has looked too often in one wait goes on and waits no more in this launch, so nothing depends on clusters
// being resident together.
//
// Compiled in with PACED alone. The word is the launch's own, and starts as zero.
#pragma once

#ifdef PACED

constexpr int PACE_STEPS = 16;         // stages between two counts
constexpr int MAX_LOOKS = 256;         // at the others in one wait, each of a microsecond or less
constexpr int LOOK_NANOSECONDS = 100;  // between two of them

class Pace {
    unsigned int* const counted;  // by all clusters together
    const int clusters, waves;    // waves: in which this block counts
    unsigned int before = 0;      // counted by this cluster
    bool waits = true;

public:
    // `tiles`: whole ones, of all clusters. They count in full waves alone, so that all count as often; of a cluster's
    // blocks the first does.
    __device__ __forceinline__ Pace(unsigned int* counted, int clusters, int tiles, int rank)
        : counted(counted), clusters(clusters), waves(rank == 0 ? tiles / clusters : 0) {}

    // Before the producer asks for that stage of a tile in that wave.
    __device__ __forceinline__ void keep(int wave, int step) {
        if (wave >= waves || step % PACE_STEPS != 0) return;
        for (int looks = MAX_LOOKS; waits && !is_reached(); __nanosleep(LOOK_NANOSECONDS))
            waits = --looks > 0;
        count();
    }

    // Whether all have counted as often as this cluster. The sum may wrap.
    __device__ __forceinline__ bool is_reached() const {
        const unsigned int now = *static_cast<const volatile unsigned int*>(counted);
        return static_cast<int>(now - before * clusters) >= 0;
    }

    __device__ __forceinline__ void count() {
        atomicAdd(counted, 1u);
        ++before;
    }
};

#define PACE_PARAMETER , unsigned int* counted
#define PACE_WORD , counted

#else

#define PACE_PARAMETER
#define PACE_WORD

#endif
