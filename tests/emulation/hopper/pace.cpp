// How far clusters go apart, of which each takes another time for a stage, kept in step as hopper_pace.cuh says. For
// each line "clusters waves stages slowest seed" of the input, a line: how many stages one is ahead of another at most;
// the same where nothing keeps them in step; how often the counter was raised; how often a cluster that is alone looks
// for the others in all of its waves; how often that counts, and how often a block that is not its cluster's first.
// `slowest`: the time for a stage of the slowest, where the fastest takes 1.
#include <cstdio>
#include <random>
#include <vector>

#define __nanosleep emulated_nanosleep  // looks are counted here
#include "emulated.hpp"                 // before the source: it has no other words
#undef __nanosleep

namespace {

int looks = 0;
void __nanosleep(unsigned int) { ++looks; }

}  // namespace

#include "hopper_pace.cuh"

namespace {

struct Cluster {
    Pace pace;
    double stage_time, now = 0;
    int step = 0;  // of all its waves
};

struct Course {
    int clusters, waves, stages;
    double slowest;
    unsigned int seed;
    int ahead = 0;
    unsigned int counted = 0;

    // The earliest of those that may go on takes its next step, until nobody can.
    void run(bool is_paced) {
        std::mt19937 random(seed);
        std::uniform_real_distribution<double> time(1.0, slowest);
        std::vector<Cluster> all;
        for (int index = 0; index < clusters; ++index)
            all.push_back({Pace(&counted, clusters, waves * clusters, 0), time(random)});
        double now = 0;
        while (Cluster* const next = earliest(all, is_paced)) {
            now = next->now = max(next->now, now);  // who had to wait goes on when the last of the others came
            if (is_paced && is_counted(*next)) next->pace.count();
            ++next->step;
            next->now += next->stage_time;
            for (const Cluster& each : all)
                ahead = max(ahead, next->step - each.step);
        }
    }

private:
    bool is_counted(const Cluster& each) const { return each.step % stages % PACE_STEPS == 0; }

    Cluster* earliest(std::vector<Cluster>& all, bool is_paced) const {
        Cluster* found = nullptr;
        for (Cluster& each : all) {
            const bool waits = is_paced && is_counted(each) && !each.pace.is_reached();
            if (each.step < waves * stages && !waits && (!found || each.now < found->now)) found = &each;
        }
        return found;
    }
};

// How often it counts, in one wave more than are full.
unsigned int count_alone(int clusters, int waves, int stages, int rank) {
    unsigned int counted = 0;
    Pace pace(&counted, clusters, (waves + 1) * clusters - 1, rank);
    for (int wave = 0; wave < waves + 1; ++wave)
        for (int step = 0; step < stages; ++step)
            pace.keep(wave, step);
    return counted;
}

}  // namespace

int main() {
    Course paced, free;
    while (std::scanf("%d %d %d %lf %u", &paced.clusters, &paced.waves, &paced.stages, &paced.slowest, &paced.seed) ==
           5) {
        free = paced;
        paced.run(true);
        free.run(false);
        looks = 0;
        const unsigned int first = count_alone(paced.clusters, paced.waves, paced.stages, 0);
        const unsigned int second = count_alone(paced.clusters, paced.waves, paced.stages, 1);
        std::printf("%d %d %u %d %u %u\n", paced.ahead, free.ahead, paced.counted, looks, first, second);
        paced.ahead = paced.counted = 0;
    }
}
