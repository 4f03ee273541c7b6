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
    void end_group_at(unsigned int barrier);  // to which the thread comes when all copies up to here are done
    void complete(int pending);               // all groups but the latest `pending`
    void complete_for(unsigned int barrier);  // all that arrive there, and those before them
    void forget();                            // the block is over

private:
    struct Group {
        size_t copies;
        unsigned int barrier = 0;
        bool arrives = false;  // at the barrier
    };
    void complete_oldest();

    std::deque<Copy> issued;
    std::deque<Group> groups;  // oldest first
    size_t ungrouped = 0;
};

}  // namespace emulated
