// How far clusters go apart that are kept in step as hopper_pace.cuh says, where each takes another time for a stage.
// For each line "clusters waves stages slowest seed" of the input, a line: the most stages that one was ahead of
// another; how often the counter was raised; how often a cluster that is alone looks for others in all of its waves.
// `slowest`: the time for a stage of the slowest cluster, where the fastest takes 1.
#include <cstdio>
#include <random>
#include <vector>

static int looks = 0;
#define __nanosleep counted_nanosleep
#include "emulated.hpp"  // before the source: it has no other words
#undef __nanosleep
inline void __nanosleep(unsigned int) { ++looks; }

#include "hopper_pace.cuh"

namespace {

struct Cluster {
    Pace pace;
    double stage_time, now = 0;
    long long step = 0;  // of all its waves
    unsigned int wanted = 0;
    bool waits = false;
};

struct Drift {
    long long ahead;
    unsigned int counted;
};

// The next to move is whoever is the earliest; who waits moves to where the others let it go on.
Drift run(int clusters, int waves, int stages, double slowest, unsigned int seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> time(1.0, slowest);
    unsigned int counted = 0;
    std::vector<Cluster> all;
    for (int index = 0; index < clusters; ++index)
        all.push_back({Pace(&counted, clusters, waves, 0), time(random)});
    const long long last = static_cast<long long>(waves) * stages;
    Drift found = {0, 0};
    for (;;) {
        Cluster* next = nullptr;
        long long first = last, furthest = 0;
        double now = 0;
        for (Cluster& each : all) {
            first = min(first, each.step);
            furthest = max(furthest, each.step);
            if (each.waits && each.pace.is_reached(each.wanted)) each.waits = false;
            if (!each.waits && each.step < last && (!next || each.now < next->now)) next = &each;
        }
        found.ahead = max(found.ahead, furthest - first);
        if (!next) break;
        now = next->now;
        for (Cluster& each : all)
            if (each.waits) each.now = max(each.now, now);
        if (next->step % stages % PACE_STEPS == 0) {
            next->wanted = next->pace.count();
            next->waits = !next->pace.is_reached(next->wanted);
        }
        ++next->step;
        next->now += next->stage_time;
    }
    found.counted = counted;
    return found;
}

// How often one of so many clusters looks for the others, of which none ever counts.
int looks_alone(int clusters, int waves, int stages) {
    unsigned int counted = 0;
    Pace pace(&counted, clusters, waves, 0);
    looks = 0;
    for (int wave = 0; wave < waves + 1; ++wave)
        for (int step = 0; step < stages; ++step)
            pace.keep(wave, step);
    return looks;
}

}  // namespace

int main() {
    int clusters, waves, stages;
    double slowest;
    unsigned int seed;
    while (std::scanf("%d %d %d %lf %u", &clusters, &waves, &stages, &slowest, &seed) == 5) {
        const Drift found = run(clusters, waves, stages, slowest, seed);
        std::printf("%lld %u %d\n", found.ahead, found.counted, looks_alone(clusters, waves, stages));
    }
}
