// The parameters of `recheck`, and how far an element of a product may be off: the rule of worker/check/block.py, one
// element at a time.
#pragma once
#include "common.cuh"
#include "double_sums.cuh"
#include "output.cuh"

typedef unsigned long long Word;

__device__ __forceinline__ double unknown() { return infinity() - infinity(); }

constexpr int TILE_WORDS = 4, OPEN_WORDS = 4;

// Every member has 64 bits. Lines are rows or columns of C: those that are listed, all of one item in a tile, and those
// that they cross, which are all of the other kind. Steps are from one line of a kind to the next.
struct Recheck {
    const Element *listed, *crossed;  // the operand whose rows (or columns) these lines are, each
    const Output *c, *addend, *bias;
    const Index* lines;  // by tiles
    const Index* tiles;  // TILE_WORDS each: item, its first place in `lines`, how many, and the bits of `norm`
    Word* worst;         // bits of the largest ratio of an element to its bound; zero before, like the next
    Word* open_count;    // elements about which nothing is decided here
    Word* open;          // (capacity, OPEN_WORDS) of these: item, listed line, crossed line, bits of the ratio

    Index capacity, lines_crossed, k, depth;
    Index listed_along, listed_pitch, listed_stride;  // along: a line's terms are neighbours in memory
    Index crossed_along, crossed_pitch, crossed_stride;
    Index c_listed_step, c_crossed_step, c_stride;
    Index has_addend, addend_listed_step, addend_crossed_step, addend_stride;
    Index has_bias, bias_listed_step, bias_crossed_step;
    Index is_fused, decides;             // decides: no ratio beyond `near` is left open because of it alone
    Index lowered_bits, least_exponent;  // of operands that are rounded to a shorter type; 0: they are not
    double of_size, of_root, of_value, rest, output, epilogue, drift;
    double operand_floor, rounds_to_infinity, near, largest_output, largest_sum, alpha, beta;
};

// Of one element. Sums that begin anew after `depth` terms: those that are complete, and the present one; those of
// float64 elements never do.
struct Sums : DoubleSum {
    double completed, magnitudes, squares, partial_sums;  // partial_sums: Σₜ|sₜ|

    __device__ __forceinline__ void begin_anew() {
#if !defined(DTYPE_FLOAT64)
        completed += sum;
        sum = 0.0;
#endif
    }
    __device__ __forceinline__ double value() const { return completed + sum; }
    __device__ __forceinline__ void replace(double value) { completed = 0.0, sum = value; }
    __device__ __forceinline__ double error(double given) const { return error_of(given - completed); }

    template <bool ROOT, bool STEPS>
    __device__ __forceinline__ void add(double a, double b, double floor) {
        accumulate(a, b, a * b);
        magnitudes = fma(fabs(a), fabs(b), magnitudes);
        if (STEPS) partial_sums += fabs(sum);
        if (ROOT) {
            const double size = fmax(fabs(a), floor) * fmax(fabs(b), floor);
            squares = fma(size, size, squares);
        }
    }
};

// What an element of the product is compared by, besides its sum.
struct Context {
    double given, norm;        // of a class that is normwise, the size of every element; else 0
    double added, added_size;  // to alpha·A·B
    bool rounds_to_infinity;   // an operand of it is beyond the shorter type to which it is rounded
};

// Whether `Sums` in float64 say all about an element: of float64 elements they may have left its range.
__device__ __forceinline__ bool is_known(const Sums& sums, double given) {
#if defined(DTYPE_FLOAT64)
    if (sums.magnitudes == 0.0) return given == 0.0 || !isfinite(sums.value());
    return sums.magnitudes > 0x1p-900 && sums.magnitudes < 0x1p900;
#else
    return true;
#endif
}

// Whether IEEE arithmetic may have given C's infinity or NaN: the sum overflows the product's type, or overflows the
// accumulator on the way, which depends on the order of summation. `sizes` is without what is added.
__device__ __forceinline__ bool may_overflow(const Recheck& check, const Context& context, double value, double size,
                                             double sizes, double bound) {
    const double given = context.given, largest = check.largest_output, most = check.largest_sum;
    const bool is_up = given == infinity(), is_down = given == -infinity();
    if (isfinite(given)) return false;
    if (context.rounds_to_infinity) return true;
    if (check.is_fused) {
        const bool leaves = (is_up && value + bound >= largest) || (is_down && bound - value >= largest);
        return leaves || fmax(sizes, size) + bound >= most;
    }
    const bool true_up = value == infinity(), true_down = value == -infinity();
    bool up = true_up, down = true_down;
    if (isfinite(value)) {
        up = value + bound >= largest || (size + value) / 2 + bound >= most;
        down = bound - value >= largest || (size - value) / 2 + bound >= most;
    }
    // An infinite term decides the sum, unless finite ones overflow the other way before it.
    const bool met_up = size / 2 >= most && true_down, met_down = size / 2 >= most && true_up;
    const bool undefined = (up && (down || met_down)) || (down && met_up);
    return (is_up && up) || (is_down && down) || (given != given && undefined);
}

// What the steps of a sum are granted, one by one, besides `others`.
__device__ __forceinline__ double granted(const Recheck& check, const Context& context, const Sums& sums,
                                          double others) {
    const double sizes = fmax(fabs(check.alpha) * sums.magnitudes + context.added_size, context.norm);
    const double drift = fabs(check.alpha) * check.drift * sums.partial_sums;
    return fmax(check.of_size * sizes, drift + check.epilogue * sizes) + others + check.rest;
}

// An element beside its sum.
struct Compared {
    double off, bound, most;  // its distance, what its class allows it, and no sum may be farther off than `most`
    double others;            // of `bound`, what is not for the steps of the sum
    bool is_right;            // equal, or out of range where that may be
};

__device__ __forceinline__ Compared compared(const Recheck& check, const Context& context, const Sums& sums) {
    const double alpha = fabs(check.alpha), product = sums.value(), given = context.given;
    const double value = check.alpha * product + context.added;
    const double sizes = fmax(sums.magnitudes, context.norm), size = alpha * sizes + context.added_size;
    const double of_operands = alpha * check.of_root * sqrt(sums.squares);
    const double of_product = alpha * (check.of_value - check.output) * fabs(product);
    Compared found;
    found.others = of_operands + of_product + check.output * fabs(value);
    found.bound = check.of_size * size + found.others + check.rest;
    found.most = found.bound + check.drift * static_cast<double>(check.depth) * alpha * sizes;
    found.off = check.is_fused ? fabs(given - value) : sums.error(given);
    found.is_right = given == value || (given != given && value != value) ||
                     may_overflow(check, context, value, size, sizes, found.bound);
    return found;
}

// The ratio of an element's distance to its bound. Negative where it is too near or beyond, so that the steps of its
// sum must explain it; NaN where only the host can say something.
__device__ __forceinline__ double first_ratio(const Recheck& check, const Context& context, const Sums& sums) {
    if (!is_known(sums, context.given)) return unknown();
    const Compared found = compared(check, context, sums);
    if (found.is_right) return 0.0;
    const double ratio = found.off / found.bound;
    if (!isfinite(ratio)) return unknown();
    return ratio <= check.near ? ratio : -ratio;
}

// What the steps of its sum make of such a ratio; as before where they do not explain it. NaN where nothing may.
__device__ __forceinline__ double explained_ratio(const Recheck& check, const Context& context, const Sums& sums,
                                                  double ratio) {
    const Compared found = compared(check, context, sums);
    if (!(found.off / found.most <= 1.0)) return unknown();
    const double explained = found.off / granted(check, context, sums, found.others);
    return explained <= 1.0 ? explained : ratio;
}

// The same of operands that were rounded or truncated.
__device__ __forceinline__ double lowered_ratio(const Recheck& check, const Context& context, const Sums& sums,
                                                double ratio) {
    const double value = check.alpha * sums.value() + context.added;
    const double lowered = fabs(context.given - value) / granted(check, context, sums, check.output * fabs(value));
    return lowered <= 1.0 ? lowered : ratio;
}

// An element in so many significant bits, and in multiples of the type's smallest number.
__device__ __forceinline__ double lowered(const Recheck& check, double value, bool truncated) {
    int exponent;
    frexp(value, &exponent);
    const int place = max(exponent, static_cast<int>(check.least_exponent)) - static_cast<int>(check.lowered_bits);
    const double scaled = ldexp(value, -place);
    return ldexp(truncated ? trunc(scaled) : rint(scaled), place);
}
