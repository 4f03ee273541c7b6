// The threads of a block take turns, each on a fiber of its own: one runs until it waits at a barrier, and goes on when
// all whom the barrier is for have come to it. A barrier that cannot be completed is an error, said in words. Blocks of
// a cluster run together: their threads are numbered through, and so are their warps.
#include <sanitizer/common_interface_defs.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "copies.hpp"
#include "emulated.hpp"
#include "fiber.hpp"
#include "launch.hpp"
#include "order.hpp"
#include "shared.hpp"

Dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

namespace {

enum class State { READY, AT_CLUSTER_BARRIER, AT_BLOCK_BARRIER, AT_WARP_BARRIER, LOOKING, RETURNED };
constexpr const char* WHOSE[] = {"", "cluster", "block", "warp", "counting"};  // barrier
constexpr int LARGEST_EXCHANGE = 16;                                           // bytes

struct Thread {
    explicit Thread(void (*body)()) : fiber(body) {}
    bool waits_at(State barrier, Place place) const {
        if (state != barrier || at.line != place.line) return false;
        return at.file == place.file || strcmp(at.file, place.file) == 0;  // most are the same word
    }

    Fiber fiber;
    Dim3 index{};
    int rank = 0;  // of its block in the cluster
    State state = State::RETURNED;
    Place at{};             // the barrier,
    unsigned int mask = 0;  // and the lanes of the warp that it is for
    unsigned char put_down[2][LARGEST_EXCHANGE]{};  // since the lanes last went on, and before: others still read that
    int turn = 0;                                   // which of both is written
    unsigned long long together = 0;  // a sum over where it came to what its warp does as one
    Copies copies;
};

std::vector<std::unique_ptr<Thread>> threads;  // as many as any block had yet
int count;                   // of this cluster,
int of_block;                // and of each of its blocks
int current = -1;
int late = -1;  // has no turn now
int launches = 0;
bool changed;  // what threads look for, or where one of them stands, since all had a look
const Kernel* kernel;
Arguments arguments;
Dim3 first_block;  // of the cluster

void run_thread() { kernel->call(arguments); }
int lanes_of_warp(int warp) { return std::min(warpSize, count - warp * warpSize); }

template <typename Holds>
bool all_threads(int first, int number, Holds holds) {
    const auto begin = threads.begin() + first;
    return std::all_of(begin, begin + number, [&](const auto& thread) { return holds(*thread); });
}
bool all_are(State state, int first, int number) {
    return all_threads(first, number, [=](const Thread& thread) { return thread.state == state; });
}

void describe(const Thread& thread) {
    const char* const slash = strrchr(thread.at.file ? thread.at.file : "", '/');
    if (thread.state == State::RETURNED)
        fprintf(stderr, "returned\n");
    else
        fprintf(stderr, "waits for its %s at %s:%d\n", WHOSE[static_cast<int>(thread.state)],
                slash ? slash + 1 : thread.at.file, thread.at.line);
}

[[noreturn]] void fail_as_stuck() {
    for (int first = 0, next; first < count; first = next) {
        const Thread& one = *threads[first];
        for (next = first + 1; next < count; ++next)
            if (threads[next]->state != one.state || threads[next]->at.line != one.at.line) break;
        fprintf(stderr, "threads %d to %d: ", first, next - 1);
        describe(one);
    }
    fail("A barrier waits for threads that do not come to it.");
}

// Lets the lanes of a mask go on, if all of them wait at the same place with that mask.
bool release_lanes(int warp, Place at, unsigned int mask) {
    Thread* waiting[warpSize];
    int found = 0;
    for (int lane = 0; lane < lanes_of_warp(warp); ++lane) {
        Thread& thread = *threads[warp * warpSize + lane];
        if (!(mask >> lane & 1)) continue;
        if (!thread.waits_at(State::AT_WARP_BARRIER, at) || thread.mask != mask) return false;
        waiting[found++] = &thread;
    }
    for (int index = 0; index < found; ++index) {
        waiting[index]->state = State::READY;
        waiting[index]->turn ^= 1;
    }
    return found > 0;
}

bool release_warp(int warp) {
    bool any = false;
    for (int lane = 0; lane < lanes_of_warp(warp); ++lane) {
        const Thread& thread = *threads[warp * warpSize + lane];
        if (thread.state == State::AT_WARP_BARRIER) any = release_lanes(warp, thread.at, thread.mask) || any;
    }
    return any;
}

void check_together() {
    for (int index = 0; index < count; ++index)
        if (threads[index]->together != threads[index / warpSize * warpSize]->together)
            fail("Threads %d and %d did not come to the same instructions of their whole warp.",
                 index / warpSize * warpSize, index);
}

// Lets `number` threads go on if all of them wait at one place for such a barrier.
bool release(State barrier, int first, int number) {
    const Place at = threads[first]->at;
    if (!all_threads(first, number, [=](const Thread& thread) { return thread.waits_at(barrier, at); })) return false;
    for (int index = first; index < first + number; ++index)
        threads[index]->state = State::READY;
    return true;
}

// One block at a time, which so goes as far as it can before another does; all of them where it is the cluster's turn.
void release_next(Order& blocks) {
    for (const int rank : blocks.next())
        if (release(State::AT_BLOCK_BARRIER, rank * of_block, of_block)) return;
    if (!release(State::AT_CLUSTER_BARRIER, 0, count)) fail_as_stuck();
}

void run_lane(int index) {
    Thread& thread = *threads[index];
    if (thread.state != State::READY || index == late) return;
    current = index;
    threadIdx = thread.index;
    blockIdx = {first_block.x + thread.rank, first_block.y, first_block.z};
    use_shared(thread.rank);
    thread.state = State::RETURNED;  // unless it pauses, and says why
    thread.fiber.resume();
    changed = changed || thread.state != State::LOOKING;
    current = -1;
}

void run_warp(int warp, Order& lanes) {
    do
        for (const int lane : lanes.next())
            if (lane < lanes_of_warp(warp)) run_lane(warp * warpSize + lane);
    while (release_warp(warp));
}

bool look_again_at_all() {
    bool any = false;
    for (int index = 0; index < count; ++index)
        if (threads[index]->state == State::LOOKING) {
            threads[index]->state = State::READY;
            any = true;
        }
    return any;
}

// Threads that look for something have another look, if anything has changed.
bool look_around() {
    const bool any = look_again_at_all();
    if (any && !changed) {
        for (int index = 0; index < count; ++index)
            if (threads[index]->state == State::READY) threads[index]->state = State::LOOKING;
        fail_as_stuck();
    }
    changed = false;
    return any;
}

// A warp goes as far as it can before another does: what it must not do before others have done their part, or after,
// then shows in one order or the other. Of a block that has returned nobody may read shared memory any more.
void run_cluster(Order& blocks, Order& warps, Order& lanes, int last) {
    for (int index = 0; index < count; ++index) {
        threads[index]->state = State::READY;
        threads[index]->together = 0;
    }
    for (bool others_go_on = true;;) {
        late = others_go_on ? last : -1;
        for (const int warp : warps.next()) {
            run_warp(warp, lanes);
            const int rank = warp * warpSize / of_block;
            if (all_are(State::RETURNED, rank * of_block, of_block)) close_shared(rank);
        }
        others_go_on = late < 0 || changed;
        if (late >= 0) {
            look_again_at_all();
            changed = false;
            continue;
        }
        check_together();
        if (all_are(State::RETURNED, 0, count)) break;
        if (!look_around()) release_next(blocks);
    }
    for (int index = 0; index < count; ++index)
        threads[index]->copies.forget();
}

void pause(State state, unsigned int mask, Place at) {
    Thread& self = *threads[current];
    self.state = state;
    self.mask = mask;
    self.at = at;
    Fiber::pause();
}

void set_up_threads(const Grid& grid) {
    gridDim = {static_cast<unsigned int>(grid.x), 1, static_cast<unsigned int>(grid.z)};
    blockDim = {static_cast<unsigned int>(grid.block_x), static_cast<unsigned int>(grid.block_y), 1};
    of_block = static_cast<int>(blockDim.x * blockDim.y);
    count = of_block * static_cast<int>(grid.cluster);
    if (grid.cluster > 1 && (of_block % warpSize != 0 || gridDim.x % grid.cluster != 0))
        fail("Clusters are whole blocks of whole warps.");
    while (threads.size() < static_cast<size_t>(count))
        threads.push_back(std::make_unique<Thread>(run_thread));
    for (int index = 0; index < count; ++index) {
        const unsigned int within = index % of_block;
        threads[index]->index = {within % blockDim.x, within / blockDim.x, 0};
        threads[index]->rank = index / of_block;
    }
}

}  // namespace

void wait_for_cluster(Place at) { pause(State::AT_CLUSTER_BARRIER, 0, at); }
void wait_for_block(Place at) { pause(State::AT_BLOCK_BARRIER, 0, at); }
void wait_for_warp(unsigned int mask, Place at) { pause(State::AT_WARP_BARRIER, mask, at); }
void look_again(Place at) { pause(State::LOOKING, 0, at); }
void note_change() { changed = true; }
int lane() { return current % warpSize; }
void come_together(Place at) { threads[current]->together = threads[current]->together * 31 + at.line; }

void exchange(unsigned int mask, int lane, void* value, int bytes, Place at) {
    const int warp = current / warpSize;
    if (bytes > LARGEST_EXCHANGE) fail("A shuffle here moves at most %d bytes, not %d.", LARGEST_EXCHANGE, bytes);
    if (lane >= lanes_of_warp(warp) || !(mask >> lane & 1))
        fail("A shuffle reads from lane %d, not of its mask.", lane);
    memcpy(threads[current]->put_down[threads[current]->turn], value, bytes);
    wait_for_warp(mask, at);
    const Thread& from = *threads[warp * warpSize + lane];
    memcpy(value, from.put_down[from.turn ^ 1], bytes);  // all that went on together have their turn before any again
}

void require_multiple(const char* what, unsigned long long number, unsigned long long of) {
    if (number % of != 0) fail("%s is %#llx, which is no multiple of %llu.", what, number, of);
}

void issue_copy(void* shared, const void* global, int bytes, int taken) {
    threads[current]->copies.issue({shared, global, bytes, taken});
}
void end_group() { threads[current]->copies.end_group(); }
void complete_groups(int pending) { threads[current]->copies.complete(pending); }

void run_grid(const Kernel& called, const Grid& grid, const Arguments& given) {
    kernel = &called;
    arguments = given;
    set_up_threads(grid);
    const int warps = (count + warpSize - 1) / warpSize;
    const int across = static_cast<int>(gridDim.x / grid.cluster);
    Order of_clusters(grid.order, across * static_cast<int>(gridDim.z));
    const int blocks = static_cast<int>(grid.cluster);
    Order of_blocks(grid.order, blocks), of_warps(grid.order, warps), of_lanes(grid.order, warpSize);
    begin_shared(called, grid.shared_bytes, blocks);
    for (const int cluster : of_clusters.next()) {
        first_block = {static_cast<unsigned int>(cluster % across * grid.cluster), 0,
                       static_cast<unsigned int>(cluster / across)};
        refill_shared();
        run_cluster(of_blocks, of_warps, of_lanes, static_cast<int>(grid.late));
    }
    end_shared();
    ++launches;
}

void say_where() {
    fprintf(stderr, "\nIn launch %d.", launches);
    if (current >= 0)
        fprintf(stderr, " In thread (%u, %u) of block (%u, 0, %u).", threadIdx.x, threadIdx.y, blockIdx.x, blockIdx.z);
    fprintf(stderr, "\n");
}

void fail(const char* sentence, ...) {
    va_list values;
    va_start(values, sentence);
    vfprintf(stderr, sentence, values);
    va_end(values);
    fprintf(stderr, "\n");
    __sanitizer_print_stack_trace();
    say_where();
    exit(1);
}

}  // namespace emulated
