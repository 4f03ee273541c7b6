// Whole rows or columns of a product again in float64, and each of their elements against its class's bound
// (worker/check/elementwise.py). What cannot be decided here, and whatever is beyond, is left to the host: so nothing
// that this says to be wrong is wrong yet, and what it says to be right is.
//
// A block has LISTED lines, rows or columns, and CROSSED ones that they cross, and adds up all terms in the order of k.
// Where operands are not finite, it does so once more, for those alone. Where elements are beyond their bounds, it does
// so with the partial sums of each; and if operands were rounded to a shorter type first, with operands rounded, and
// truncated.
#include "recheck.cuh"

constexpr int THREADS = 256, LISTED = 32, CROSSED = 64, DEPTH = 16;       // DEPTH: terms in shared memory
constexpr int SIDE = 16, ROWS = LISTED / SIDE, COLUMNS = CROSSED / SIDE;  // of a thread, SIDE apart

struct Shared {
    double listed[DEPTH][LISTED], crossed[DEPTH][CROSSED];
    Index lines[LISTED];                                 // negative past the last
    int bad_listed[LISTED], bad_crossed[CROSSED];        // an element is not finite
    int beyond_listed[LISTED], beyond_crossed[CROSSED];  // or beyond the shorter type
    int any_bad, any_undecided;
    Word worst;
};

enum class OperandForm { FINITE, AS_STORED, ROUNDED, TRUNCATED };  // how elements enter the sums

template <OperandForm FORM>
__device__ __forceinline__ double term_of(const Recheck& check, Shared& shared, int& bad, int& beyond, double value) {
    if (FORM == OperandForm::AS_STORED) return value;
    if (FORM == OperandForm::FINITE && fabs(value) >= check.rounds_to_infinity) beyond = 1;
    if (!isfinite(value)) {
        if (FORM == OperandForm::FINITE) bad = 1, shared.any_bad = 1;
        return 0.0;
    }
    return FORM == OperandForm::FINITE ? value : lowered(check, value, FORM == OperandForm::TRUNCATED);
}

struct BlockOperands {
    const Element *listed, *crossed;
    Index item, first_crossed;
    double norm;
};

template <OperandForm FORM, bool ROOT, bool STEPS>
__device__ __forceinline__ void add_up(const Recheck& check, Shared& shared, const BlockOperands& block,
                                       Sums (&sums)[ROWS][COLUMNS]) {
    const auto line_of_listed = [&](int at) { return shared.lines[at]; };
    const auto line_of_crossed = [&](int at) {
        return block.first_crossed + at < check.lines_crossed ? block.first_crossed + at : Index(-1);
    };
    const auto listed_term = [&](int at, double value) {
        return term_of<FORM>(check, shared, shared.bad_listed[at], shared.beyond_listed[at], value);
    };
    const auto crossed_term = [&](int at, double value) {
        return term_of<FORM>(check, shared, shared.bad_crossed[at], shared.beyond_crossed[at], value);
    };
#pragma unroll
    for (auto& row : sums)
#pragma unroll
        for (Sums& each : row)
            each = {};
#pragma unroll 1
    for (Index depth = 0; depth < check.k; depth += DEPTH) {
        __syncthreads();
        read_terms<THREADS>(shared.listed, block.listed, check.listed_along, check.listed_pitch, depth, check.k,
                            line_of_listed, listed_term);
        read_terms<THREADS>(shared.crossed, block.crossed, check.crossed_along, check.crossed_pitch, depth, check.k,
                            line_of_crossed, crossed_term);
        __syncthreads();
        const bool anew = depth % check.depth == 0;
        const int count = static_cast<int>(min(check.k - depth, Index(DEPTH)));
#pragma unroll 1
        for (int term = 0; term < count; ++term)
#pragma unroll
            for (int i = 0; i < ROWS; ++i)
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j) {
                    if (anew && term == 0) sums[i][j].begin_anew();
                    sums[i][j].template add<ROOT, STEPS>(shared.listed[term][threadIdx.x / SIDE + i * SIDE],
                                                         shared.crossed[term][threadIdx.x % SIDE + j * SIDE],
                                                         check.operand_floor);
                }
    }
    __syncthreads();
}

__device__ __forceinline__ double stored(Output value) {
#if defined(DTYPE_FLOAT8_E4M3) && !defined(OUTPUT_FLOAT16) && !defined(OUTPUT_BFLOAT16)
    return value;
#else
    return value_of(value);
#endif
}

__device__ __forceinline__ Context context_of(const Recheck& check, const Shared& shared, const BlockOperands& block,
                                              int at, int across) {
    const Index item = block.item, line = shared.lines[at], other = block.first_crossed + across;
    Context found = {};
    found.given = stored(check.c[item * check.c_stride + line * check.c_listed_step + other * check.c_crossed_step]);
    found.norm = block.norm;
    found.rounds_to_infinity = shared.beyond_listed[at] != 0 || shared.beyond_crossed[across] != 0;
    const auto add = [&](double value) {
        found.added += value;
        if (isfinite(value)) found.added_size += fabs(value);
    };
    if (check.has_addend)
        add(check.beta * stored(check.addend[item * check.addend_stride + line * check.addend_listed_step +
                                             other * check.addend_crossed_step]));
    if (check.has_bias) add(stored(check.bias[line * check.bias_listed_step + other * check.bias_crossed_step]));
    return found;
}

__device__ __forceinline__ void leave_to_host(const Recheck& check, const BlockOperands& block, Index line, int across,
                                              double ratio) {
    const Word at = atomicAdd(check.open_count, Word(1));
    if (at >= static_cast<Word>(check.capacity)) return;
    Word* const entry = check.open + at * OPEN_WORDS;
    entry[0] = block.item, entry[1] = line, entry[2] = block.first_crossed + across;
    entry[3] = static_cast<Word>(__double_as_longlong(ratio));
}

// Calls `visit(i, j, at, across)` for each of a thread's elements that there are.
template <typename Visit>
__device__ __forceinline__ void for_each_element(const Recheck& check, const Shared& shared, const BlockOperands& block,
                                                 Visit visit) {
#pragma unroll
    for (int i = 0; i < ROWS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            const int at = threadIdx.x / SIDE + i * SIDE, across = threadIdx.x % SIDE + j * SIDE;
            if (shared.lines[at] >= 0 && block.first_crossed + across < check.lines_crossed) visit(i, j, at, across);
        }
}

// The sums of rows and columns that are not finite: what IEEE arithmetic makes of them.
__device__ __forceinline__ void replace_bad(const Recheck& check, Shared& shared, const BlockOperands& block,
                                            Sums (&sums)[ROWS][COLUMNS]) {
    Sums as_stored[ROWS][COLUMNS];
#pragma unroll
    for (auto& row : sums)
#pragma unroll
        for (Sums& each : row)
            each.begin_anew();  // which leaves less to keep meanwhile
    add_up<OperandForm::AS_STORED, false, false>(check, shared, block, as_stored);
    for_each_element(check, shared, block, [&](int i, int j, int at, int across) {
        if (shared.bad_listed[at] || shared.bad_crossed[across]) sums[i][j].replace(as_stored[i][j].value());
    });
}

// Elements whose ratio is negative, by the steps of their sums, and with operands as a kernel may have rounded them.
template <OperandForm FORM, bool ROOT>
__device__ __forceinline__ void explain(const Recheck& check, Shared& shared, const BlockOperands& block,
                                        double (&ratios)[ROWS][COLUMNS]) {
    Sums sums[ROWS][COLUMNS];
    __syncthreads();  // everyone has looked
    if (threadIdx.x == 0) shared.any_undecided = 0;
    add_up<FORM, ROOT, true>(check, shared, block, sums);
    for_each_element(check, shared, block, [&](int i, int j, int at, int across) {
        double& ratio = ratios[i][j];
        if (!(ratio < 0.0)) return;
        const Context context = context_of(check, shared, block, at, across);
        const double now = FORM == OperandForm::FINITE ? explained_ratio(check, context, sums[i][j], ratio)
                                                       : lowered_ratio(check, context, sums[i][j], ratio);
        if (now != now) leave_to_host(check, block, shared.lines[at], across, -ratio);
        ratio = now;
        if (now < 0.0) shared.any_undecided = 1;
    });
    __syncthreads();
}

template <bool ROOT>
__device__ __forceinline__ void compare(const Recheck& check, Shared& shared, const BlockOperands& block) {
    double ratios[ROWS][COLUMNS];
    {
        Sums sums[ROWS][COLUMNS];
        add_up<OperandForm::FINITE, ROOT, false>(check, shared, block, sums);
        if (shared.any_bad) replace_bad(check, shared, block, sums);
        for_each_element(check, shared, block, [&](int i, int j, int at, int across) {
            ratios[i][j] = first_ratio(check, context_of(check, shared, block, at, across), sums[i][j]);
            if (ratios[i][j] != ratios[i][j]) leave_to_host(check, block, shared.lines[at], across, infinity());
            if (ratios[i][j] < 0.0) shared.any_undecided = 1;
        });
    }
    __syncthreads();
    if (shared.any_undecided && check.decides) explain<OperandForm::FINITE, ROOT>(check, shared, block, ratios);
    if (shared.any_undecided && check.decides && check.lowered_bits) {
        explain<OperandForm::ROUNDED, false>(check, shared, block, ratios);
        if (shared.any_undecided) explain<OperandForm::TRUNCATED, false>(check, shared, block, ratios);
    }
    double worst = 0.0;
    for_each_element(check, shared, block, [&](int i, int j, int at, int across) {
        if (ratios[i][j] < 0.0)
            leave_to_host(check, block, shared.lines[at], across, -ratios[i][j]);
        else
            worst = max(worst, ratios[i][j]);  // which leaves a NaN out
    });
    if (worst > 0.0) atomicMax(&shared.worst, static_cast<Word>(__double_as_longlong(worst)));
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) recheck(const Recheck check) {
    __shared__ Shared shared;
    const Index across = (check.lines_crossed + CROSSED - 1) / CROSSED;
    const Index* const tile = check.tiles + blockIdx.x / across * TILE_WORDS;
    const Index item = tile[0];
    const BlockOperands block = {check.listed + item * check.listed_stride, check.crossed + item * check.crossed_stride,
                                 item, blockIdx.x % across * CROSSED, __longlong_as_double(tile[3])};
    const int thread = threadIdx.x;
    if (thread < LISTED) {
        shared.lines[thread] = thread < tile[2] ? check.lines[tile[1] + thread] : Index(-1);
        shared.bad_listed[thread] = shared.beyond_listed[thread] = 0;
    }
    if (thread < CROSSED) shared.bad_crossed[thread] = shared.beyond_crossed[thread] = 0;
    if (thread == 0) shared.any_bad = shared.any_undecided = 0, shared.worst = 0;
    __syncthreads();
    if (check.of_root != 0.0 && sizeof(Element) < 8)  // float64 operands are never rounded first
        compare<true>(check, shared, block);
    else
        compare<false>(check, shared, block);
    __syncthreads();
    if (thread == 0 && shared.worst != 0) atomicMax(check.worst, shared.worst);
}
