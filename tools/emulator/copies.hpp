// Asynchronous copies of one thread. A copy is done only when the thread waits for its group; until then its
// destination may not be touched, so that a wait or a barrier that is missing cannot go unseen.
#pragma once

#include <cstddef>
#include <deque>

namespace emulated {

struct Copy {
    void* shared;
    const void* global;
    int bytes;
    int taken;  // the first of them; zeros are written for the others, which are not read
};

class Copies {
public:
    void issue(const Copy&);
    void end_group();
    void complete(int pending);  // all groups but the latest `pending`
    void forget();               // the block is over

private:
    void complete_oldest(size_t);

    std::deque<Copy> issued;
    std::deque<size_t> groups;  // how many copies each has, oldest first
    size_t ungrouped = 0;
};

}  // namespace emulated
