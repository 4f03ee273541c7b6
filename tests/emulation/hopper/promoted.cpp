// Two warpgroups that multiply tiles as hopper_promoted.cuh says, each a thread of its own, in a block whose tensor
// cores, ring and barriers are stand-ins. An instruction reads its stage, and writes sums, only when it is waited for:
// what reads sums too early finds garbage, and what releases a stage too early finds another step of k there. For each
// line "columns steps alone" of the input a tile; prints "right" if all sums of all tiles are, and what is wrong
// otherwise.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "emulated.hpp"  // before the source: it has no other words

std::mutex block;
std::condition_variable changed;
thread_local int self = -1;  // consumer

[[noreturn]] void fail(const char* what) {
    static std::mutex first;
    first.lock();
    std::printf("%s\n", what);
    std::fflush(stdout);
    std::_Exit(1);
}

// A thread changes the block's state with no other at it, and then wakes those that wait.
template <typename Change>
void alone_with_block(Change change) {
    const std::lock_guard<std::mutex> locked(block);
    change();
    changed.notify_all();
}

template <typename Condition>
void wait_until(Condition condition) {
    std::unique_lock<std::mutex> locked(block);
    changed.wait(locked, condition);
}

constexpr int CONSUMERS = 2, BOX_BYTES = 64 * 128, DEPTH_BYTES = 32;
constexpr int STAGE_BYTES = (CONSUMERS + 4) * BOX_BYTES;
constexpr bool PROMOTED = true, HAS_SCALES = false;
#define HOPPER_SUM float
typedef float Sum;

// ---- the ring: a stage holds a step of the whole run, counted from 0; a new one comes when both have released it ----
int held[STAGES], released[STAGES], all_steps;

bool has_ended(unsigned int stage, unsigned int parity) {
    wait_until([&] { return held[stage] < all_steps && held[stage] / STAGES % 2 == static_cast<int>(parity); });
    return true;
}

#include "hopper.cuh"

typedef PipelineState<STAGES> StageState;

struct Shared {
    static unsigned int a(int stage, int consumer) { return stage * STAGE_BYTES + consumer * BOX_BYTES; }
    static unsigned int b(int stage, int box) { return a(stage, CONSUMERS + box); }
    static unsigned int full(int stage) { return stage; }
};

// ---- the tensor cores ----
constexpr Sum GARBAGE = 1e30F;

struct Instruction {
    Sum* sums;
    int count;
    unsigned long long a, b;
    bool begins;

    int stage() const { return static_cast<int>(a / STAGE_BYTES); }
};
std::vector<std::vector<Instruction>> groups[CONSUMERS];  // the last one is still open

// Of a step of k, a column, a part of the step and a row of warpgroups.
Sum term(int step, int column, int part, int consumer) {
    return static_cast<Sum>((step * 7 + column * 3 + part * 5 + consumer) % 32 - 9);
}

void execute(const Instruction& instruction) {
    const int stage = instruction.stage(), part = static_cast<int>(instruction.a % 128 / 32);
    const int row = static_cast<int>(instruction.a % STAGE_BYTES / BOX_BYTES);
    const int first = static_cast<int>(instruction.b % STAGE_BYTES - CONSUMERS * BOX_BYTES) / 128;
    if (static_cast<int>(instruction.b / STAGE_BYTES) != stage || static_cast<int>(instruction.b % 128 / 32) != part)
        fail("operands of different stages or depths");
    if (row != self) fail("rows of the other consumer");
    for (int i = 0; i < instruction.count; ++i)
        instruction.sums[i] =
            (instruction.begins ? 0 : instruction.sums[i]) + term(held[stage], first + 2 * i, part, row);
}

template <int N>
struct Mma {
    static void begin(Sum (&sums)[N / 2], unsigned long long a, unsigned long long b) { issue(sums, a, b, true); }
    static void add(Sum (&sums)[N / 2], unsigned long long a, unsigned long long b) { issue(sums, a, b, false); }
    static void issue(Sum* sums, unsigned long long a, unsigned long long b, bool begins) {
        alone_with_block([&] {
            if (begins)
                for (int i = 0; i < N / 2; ++i)
                    sums[i] = GARBAGE;
            groups[self].back().push_back({sums, N / 2, a, b, begins});
        });
    }
};

unsigned long long tile_descriptor(unsigned int shared, int) { return shared; }
unsigned long long offset_descriptor(unsigned long long descriptor, int bytes) { return descriptor + bytes; }
void wgmma_fence() {}
void wgmma_commit_group() {
    alone_with_block([] { groups[self].emplace_back(); });
}
template <int PENDING>
void wgmma_wait_group() {
    std::this_thread::sleep_for(std::chrono::microseconds(50));  // others get their chance
    alone_with_block([] {
        if (!groups[self].back().empty()) fail("instructions outside a group");
        while (groups[self].size() > PENDING + 1) {
            for (const Instruction& instruction : groups[self].front())
                execute(instruction);
            groups[self].erase(groups[self].begin());
        }
    });
}
template <int COUNT>
void fence_accumulators(Sum (&)[COUNT]) {}

void release(const Shared&, int stage) {
    alone_with_block([&] {
        for (const auto& group : groups[self])
            for (const Instruction& instruction : group)
                if (static_cast<int>(instruction.a / STAGE_BYTES) == stage)
                    fail("a stage is released while it is read");
        if (++released[stage] < CONSUMERS) return;
        released[stage] = 0;
        held[stage] += STAGES;
    });
}

int warp_uniform(int value) { return value; }

#include "hopper_promoted.cuh"

// ---- a block's tiles ----
struct Tile {
    int columns, steps, alone;  // alone: consumer 1 has no rows in it
};

template <int N>
void consume_tile(const Tile& tile, int first_step, StageState& place) {
    Sum sums[N / 2] = {};
    multiply_and_promote<N>(Shared(), self, tile.steps, place, sums);
    for (int i = 0; i < N / 2; ++i) {
        Sum right = 0;
        for (int step = first_step; step < first_step + tile.steps; ++step)
            for (int part = 0; part < PARTS; ++part)
                right += term(step, 2 * i, part, self);
        if (sums[i] != right) fail("a sum is wrong");
    }
}

void skip_tile(const Tile& tile, StageState& place) {
    for (int step = 0; step < tile.steps; ++step, place.advance()) {
        wait_barrier(Shared::full(place.stage), place.parity);
        release(Shared(), place.stage);
    }
}

void consume(int consumer, const std::vector<Tile>& tiles) {
    self = consumer;
    groups[self].emplace_back();
    StageState place;
    int first_step = 0;
    for (const Tile& tile : tiles) {
        if (tile.alone && consumer == 1)
            skip_tile(tile, place);
        else if (tile.columns == 64)
            consume_tile<64>(tile, first_step, place);
        else if (tile.columns == 128)
            consume_tile<128>(tile, first_step, place);
        else if (tile.columns == 192)
            consume_tile<192>(tile, first_step, place);
        else
            consume_tile<256>(tile, first_step, place);
        first_step += tile.steps;
    }
    if (groups[self].size() != 1 || !groups[self].back().empty()) fail("instructions are left");
}

int main() {
    std::vector<Tile> tiles;
    for (Tile tile; std::scanf("%d %d %d", &tile.columns, &tile.steps, &tile.alone) == 3; all_steps += tile.steps)
        tiles.push_back(tile);
    for (int stage = 0; stage < STAGES; ++stage)
        held[stage] = stage;
    std::thread first(consume, 0, std::cref(tiles)), second(consume, 1, std::cref(tiles));
    first.join();
    second.join();
    std::printf("right\n");
}
