// Residue numbers: the moduli, and constants derived from them.
//
// An integer below half the product of pairwise coprime moduli is determined by its remainders, and such integers are
// added and multiplied remainder by remainder. Remainders of moduli up to 256 are bytes, and tensor cores multiply
// bytes. After K. Ozaki, Y. Uchino and T. Imamura, "Ozaki Scheme II" (arXiv 2504.08009, 2025).
//
// The compiler computes all numbers below.
#pragma once

constexpr int FEWEST = 14, MOST = 16;  // moduli that a product takes
constexpr int WAYS = MOST - FEWEST + 1;
constexpr int LIMBS = 4;  // of 32 bits, of the product of all moduli

__device__ constexpr int modulus_of(int index) {
    constexpr int MODULI[MOST] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227, 223, 217, 211, 199, 197, 193};
    return MODULI[index];
}

// What remainders of one modulus m are found by. A whole number below 2^22 added to the bits of EXACT_FLOAT gives those
// of both together, and the bits of ROUNDING with a small whole number added end in that.
constexpr int EXACT_FLOAT = 1 << 23;
constexpr unsigned int EXACT_FLOAT_BITS = 0x4B000000;
constexpr float ROUNDING = 0x1.8p23f;
constexpr int SUM_BIAS = 1 << 30;  // that sums of products begin with: so they are not negative

struct Modulus {
    int value;
    float inverse, negative;  // 1 / m and -m
    unsigned int low, high;   // remainders of 256^0 to 256^3 and 256^4 to 256^7, a byte each
    unsigned int bits;        // EXACT_FLOAT_BITS, and what takes off EXACT_FLOAT and 2^63
    unsigned int sum_bits;    // the same, and what takes off EXACT_FLOAT, SUM_BIAS and 128
};

__device__ constexpr Modulus described(int m) {
    unsigned int powers[2] = {0, 0};
    int power = 1 % m;
    for (int byte = 0; byte < 8; ++byte) {
        powers[byte / 4] |= static_cast<unsigned int>(power) << byte % 4 * 8;
        power = power * 256 % m;
    }
    int half_range = 1;  // 2^63 modulo m
    for (int bit = 0; bit < 63; ++bit)
        half_range = half_range * 2 % m;
    return {m,
            1.0f / static_cast<float>(m),
            static_cast<float>(-m),
            powers[0],
            powers[1],
            EXACT_FLOAT_BITS + static_cast<unsigned int>((2 * m - half_range - EXACT_FLOAT % m) % m),
            EXACT_FLOAT_BITS + static_cast<unsigned int>((4 * m - SUM_BIAS % m - 128 % m - EXACT_FLOAT % m) % m)};
}

struct Moduli {
    Modulus of[MOST];
};

__device__ constexpr Moduli all_described() {
    Moduli found = {};
    for (int index = 0; index < MOST; ++index)
        found.of[index] = described(modulus_of(index));
    return found;
}

// ---- back to one integer: Σ remainder_j · weight_j, less a multiple of the product M of all moduli in use ----
struct Whole {
    unsigned int limbs[LIMBS];
};

__device__ constexpr Whole times(Whole whole, unsigned int factor) {
    unsigned long long carry = 0;
    for (int limb = 0; limb < LIMBS; ++limb) {
        carry += static_cast<unsigned long long>(whole.limbs[limb]) * factor;
        whole.limbs[limb] = static_cast<unsigned int>(carry);
        carry >>= 32;
    }
    return whole;
}

// The product of the first `count` moduli but for one; of all where `left_out` is none of them.
__device__ constexpr Whole product_of(int count, int left_out) {
    Whole found = {{1, 0, 0, 0}};
    for (int index = 0; index < count; ++index)
        if (index != left_out) found = times(found, modulus_of(index));
    return found;
}

__device__ constexpr Whole plus(Whole whole, const Whole& other) {
    unsigned long long carry = 0;
    for (int limb = 0; limb < LIMBS; ++limb) {
        carry += static_cast<unsigned long long>(whole.limbs[limb]) + other.limbs[limb];
        whole.limbs[limb] = static_cast<unsigned int>(carry);
        carry >>= 32;
    }
    return whole;
}

// A number of which the remainder of modulus `index` is 1, and those of all others 0; the one nearest to 0.
struct Weight {
    Whole magnitude;
    double sign;
};

__device__ constexpr Weight weight_of(int count, int index) {
    const int m = modulus_of(index);
    int others = 1, inverse = 1;
    for (int other = 0; other < count; ++other)
        if (other != index) others = others * (modulus_of(other) % m) % m;
    while (others * inverse % m != 1)
        ++inverse;
    const bool is_negative = 2 * inverse > m;
    return {times(product_of(count, index), is_negative ? m - inverse : inverse), is_negative ? -1.0 : 1.0};
}

// Weights and M are kept in three pieces: digits to base 2^BITS, of which the lower two may be negative. That is fine
// enough for sums of weights, each times a remainder, to be exact in float64.
constexpr int BITS = 42, PIECES = 3;
constexpr double BASE = static_cast<double>(1ull << BITS);

// Half of the base is added to the lower two, and taken off again.
__device__ constexpr double piece_of(const Whole& whole, int piece) {
    constexpr Whole HALVES = {{0, 1u << (BITS - 1) % 32, 1u << (2 * BITS - 1) % 32, 0}};
    const Whole moved = plus(whole, HALVES);
    const int first = piece * BITS, bits = piece < PIECES - 1 ? BITS : 32 * LIMBS - first;
    unsigned long long found = 0;
    for (int bit = first + bits - 1; bit >= first; --bit)
        found = found * 2 + (moved.limbs[bit / 32] >> bit % 32 & 1);
    return static_cast<double>(found) - (piece < PIECES - 1 ? BASE / 2 : 0.0);
}

template <int COUNT>
struct Weights {
    double of[COUNT][PIECES];  // 256 times a weight's pieces, the lowest first
    double from[PIECES];       // what sums begin at: they are of 1 + remainder/256
    double all[PIECES];        // M's
    double per_all;            // 2^(BITS · (PIECES - 1)) / M
    double largest;            // no sum of pieces is larger, whatever remainders are, before or after M is taken off
};

__device__ constexpr double magnitude_of(double value) { return value < 0 ? -value : value; }

template <int COUNT>
__device__ constexpr Weights<COUNT> weighed() {
    Weights<COUNT> found = {};
    const Whole all = product_of(COUNT, COUNT);
    double largest[PIECES] = {}, whole = 0.0;
    for (int piece = 0; piece < PIECES; ++piece) {
        found.all[piece] = piece_of(all, piece);
        whole = whole / BASE + found.all[piece];
        double sum = 0.0;
        for (int index = 0; index < COUNT; ++index) {
            const Weight weight = weight_of(COUNT, index);
            const double own = weight.sign * piece_of(weight.magnitude, piece);
            found.of[index][piece] = 256.0 * own;
            largest[piece] += 256.0 * magnitude_of(own);
            sum += own;
        }
        found.from[piece] = -256.0 * sum;
    }
    found.per_all = 1.0 / whole;
    const double times = largest[PIECES - 1] * found.per_all + 2.0;  // that M is taken off, at most
    for (int piece = 0; piece < PIECES; ++piece) {
        const double with_all = largest[piece] + times * magnitude_of(found.all[piece]);
        if (with_all > found.largest) found.largest = with_all;
    }
    return found;
}

static_assert(weighed<14>().largest < 0x1p53 && weighed<15>().largest < 0x1p53 && weighed<16>().largest < 0x1p53,
              "sums of pieces are exact");

struct AllWeights {
    Weights<14> of_14;
    Weights<15> of_15;
    Weights<16> of_16;
};

// Read by all threads alike: from constant memory, so that instructions take them without a register.
__constant__ Moduli MODULI = all_described();
__constant__ AllWeights WEIGHTS = {weighed<14>(), weighed<15>(), weighed<16>()};

template <int COUNT>
__device__ __forceinline__ const Weights<COUNT>& weights() {
    if constexpr (COUNT == 14)
        return WEIGHTS.of_14;
    else if constexpr (COUNT == 15)
        return WEIGHTS.of_15;
    else
        return WEIGHTS.of_16;
}

// A number R so that lines whose Euclidean norms are at most R have a product that the moduli tell, with a 512th of
// room; and its binary logarithm, cut.
__device__ __forceinline__ double norm_of(int way) {
    return way == 0 ? 0x1.7e74p54 : way == 1 ? 0x1.4f8p58 : 0x1.234ep62;
}
__device__ __forceinline__ float log_norm_of(int way) { return way == 0 ? 54.579f : way == 1 ? 58.390f : 62.186f; }
