// Lines of a product again, with their parameters taken one by one, as the emulation gives them.
#include <stddef.h>

#include RECHECK

constexpr int ARRAYS = offsetof(Recheck, capacity) / sizeof(Word);
struct Given : Recheck {
    template <typename Arguments>
    static Given of(Arguments& given) {
        struct {
            Word at[sizeof(Recheck) / sizeof(Word)];
        } words;
        int i = 0;
        for (Word& word : words.at)
            word = i++ < ARRAYS ? reinterpret_cast<Word>(given.next_memory()) : static_cast<Word>(given.next_number());
        return {__builtin_bit_cast(Recheck, words)};
    }
};

extern "C" __global__ void recheck_given(const Given given) { recheck(given); }
