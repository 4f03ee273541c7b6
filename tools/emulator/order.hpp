// An order in which to take turns: numbers below `size` rising (kind 0), falling (1), or shuffled anew each time by
// `kind`.
#pragma once

#include <utility>
#include <vector>

namespace emulated {

class Order {
public:
    Order(long long kind, int size) : kind(kind), state(static_cast<unsigned long long>(kind)), numbers(size) {
        for (int i = 0; i < size; ++i)
            numbers[i] = kind == 1 ? size - 1 - i : i;
    }

    const std::vector<int>& next() {
        for (size_t left = numbers.size(); kind > 1 && left > 1; --left)
            std::swap(numbers[left - 1], numbers[random() % left]);
        return numbers;
    }

private:
    unsigned int random() {  // Knuth's generator; its upper bits are the good ones
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        return static_cast<unsigned int>(state >> 33);
    }

    long long kind;
    unsigned long long state;
    std::vector<int> numbers;
};

}  // namespace emulated
