// The running softmax of a row, and how the results of two ranges of keys become one.
//
// Maxima are in units of log2: scores multiplied by log2 e, so that weights are powers of two.
#pragma once
#include "../arch/lanes.cuh"

#if defined(LONGWICK_HAS_KERNELS)
namespace longwick {

constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LN_2 = 0.6931471805599453f;

LONGWICK_DEVICE float minus_infinity() { return bits_float(0xff800000u); }

// What weights are measured from: the maximum, or 0 where no key was visible, so that no difference of infinities arises.
LONGWICK_DEVICE float softmax_base(float maximum) { return maximum == minus_infinity() ? 0.0f : maximum; }

// The greatest score of some keys, and the sum of their weights relative to it. Without keys: minus infinity and 0.
struct RowStats {
    float maximum = minus_infinity();
    float sum = 0.0f;
};

// What the sums of two ranges are multiplied by when they are added.
struct MergeFactors {
    float before;
    float after;
};

// Adds `next` to `stats`; sums of weighted values follow by `merge_sum`. An empty range is an exact no-op.
LONGWICK_DEVICE MergeFactors merge(RowStats& stats, RowStats next) {
    const float maximum = fmaxf(stats.maximum, next.maximum);
    const float base = softmax_base(maximum);
    const MergeFactors factors = {exp2f(stats.maximum - base), exp2f(next.maximum - base)};
    stats.sum = fmaf(stats.sum, factors.before, next.sum * factors.after);
    stats.maximum = maximum;
    return factors;
}

LONGWICK_DEVICE float merge_sum(float sum, float next, MergeFactors factors) {
    return fmaf(sum, factors.before, next * factors.after);
}

// The result of a row whose weights add up to `sum`: NaN stays NaN, and a zero has one sign, whatever it was made of.
LONGWICK_DEVICE float normalise(float weighted, float sum) { return sum == 0.0f ? 0.0f : weighted / sum + 0.0f; }

// log(sum of exp(score)), natural.
LONGWICK_DEVICE float log_sum_exp(RowStats stats) { return (stats.maximum + log2f(stats.sum)) * LN_2; }

}  // namespace longwick
#endif
