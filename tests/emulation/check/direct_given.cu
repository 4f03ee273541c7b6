// The direct check with its parameters taken one by one, as the emulation gives them.
#include <stddef.h>

#include DIRECT

constexpr int ARRAYS = offsetof(Direct, m) / sizeof(Word);
struct Given : Direct {
    template <typename Arguments>
    static Given of(Arguments& given) {
        struct {
            Word at[sizeof(Direct) / sizeof(Word)];
        } words;
        int i = 0;
        for (Word& word : words.at)
            word = i++ < ARRAYS ? reinterpret_cast<Word>(given.next_memory()) : static_cast<Word>(given.next_number());
        return {__builtin_bit_cast(Direct, words)};
    }
};

extern "C" __global__ void direct_given(const Given given) { direct(given); }
