// The sketch as the emulation gives it its arguments, and what the emulation has to add.
#include <stddef.h>

// The tensor cores' m8n8k4 for float64, by PTX's numbers of fragments: lane 4g + t has of the first factor row g at step
// t, of the second step t of column g, and of the sums row g and columns 2t and 2t + 1.
constexpr int MAX_THREADS = 1024;
inline double put_down[2][MAX_THREADS][2];  // of A and B, for one product and for the next: some still read the one
inline int turns[MAX_THREADS];
inline void multiply_fragments(double (&sums)[2], double a, double b) {
    auto& now = put_down[turns[threadIdx.x] ^= 1];
    now[threadIdx.x][0] = a;
    now[threadIdx.x][1] = b;
    __syncwarp();
    const int lane = emulated::lane(), first = static_cast<int>(threadIdx.x) - lane;
    for (int step = 0; step < 4; ++step) {
        const double of_a = now[first + lane / 4 * 4 + step][0];
        for (int i = 0; i < 2; ++i)
            sums[i] = fma(of_a, now[first + (lane % 4 * 2 + i) * 4 + step][1], sums[i]);
    }
}

#include SKETCH

// Check, word by word: its first members are arrays, the others are numbers.
constexpr int ARRAYS = offsetof(Check, m) / sizeof(Word);
struct Given : Check {
    template <typename Arguments>
    static Given of(Arguments& given) {
        struct {
            Word at[sizeof(Check) / sizeof(Word)];
        } words;
        int i = 0;
        for (Word& word : words.at)
            word = i++ < ARRAYS ? reinterpret_cast<Word>(given.next_memory()) : static_cast<Word>(given.next_number());
        return {__builtin_bit_cast(Check, words)};
    }
};

extern "C" __global__ void sketch_given(const Given check) { sketch(check); }

// One block of Philox's numbers: counter and key come as 32-bit words.
extern "C" __global__ void philox_words(const unsigned int* counter, const unsigned int* key, unsigned int* words) {
    const Philox found = philox({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
    words[threadIdx.x] = found.at[threadIdx.x];
}
