// A fiber: a function with a stack of its own that stops where it likes, and goes on from there when it is resumed.
#pragma once

#include <cstddef>

namespace emulated {

class Fiber {
public:
    explicit Fiber(void (*body)());  // called again each time that it has come to its end
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber();

    void resume();        // until it pauses
    static void pause();  // goes back to who resumed the fiber that runs now

private:
    static void begin();

    void (*body)();
    char* stack;
    void* top = nullptr;     // of the stack, while the fiber does not run: all that the processor must know
    void* shadow = nullptr;  // what the address sanitizer must know
};

}  // namespace emulated
