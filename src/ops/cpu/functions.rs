//! Elementary functions beyond [`Lanes::exp`], the same bits on every instruction set.
use super::simd::Lanes;

/// tanh within a few units in the last place at every magnitude.
///
/// Near 0 an odd polynomial (coefficients of Moshier's Cephes, `tanhf`), where 1 - 2 / (e^2x + 1) would cancel; past 0.625 that
/// formula, on |x|. NaN stays NaN.
#[inline(always)]
pub(crate) fn tanh<L: Lanes>(l: L, x: L::F) -> L::F {
    const TERMS: [f32; 5] = [-0.333_332_8, 0.133_314_42, -0.053_739_715, 0.020_639_088, -0.005_704_988_7];
    let sign = l.and_int(l.to_bits(x), l.splat_int(i32::MIN));
    let magnitude = l.from_bits(l.and_int(l.to_bits(x), l.splat_int(i32::MAX)));
    let square = l.mul(x, x);
    let mut tail = l.splat(TERMS[4]);
    for term in [TERMS[3], TERMS[2], TERMS[1], TERMS[0]] {
        tail = l.fma(tail, square, l.splat(term));
    }
    let near = l.fma(l.mul(tail, square), magnitude, magnitude);
    let grown = l.add(l.exp(l.add(magnitude, magnitude)), l.splat(1.0));
    let far = l.sub(l.splat(1.0), l.div(l.splat(2.0), grown));
    // All ones where the magnitude is below the threshold: the sign of a difference, spread.
    let is_near = l.sar_int(l.to_bits(l.sub(magnitude, l.splat(0.625))), 31);
    let is_far = l.sub_int(l.splat_int(-1), is_near);
    let chosen = l.or_int(l.and_int(l.to_bits(near), is_near), l.and_int(l.to_bits(far), is_far));
    l.from_bits(l.or_int(sign, chosen))
}

/// The logistic function 1 / (1 + e^-x) times `factor`: no cancellation at any x.
#[inline(always)]
pub(crate) fn times_logistic<L: Lanes>(l: L, factor: L::F, x: L::F) -> L::F {
    let grown = l.exp(l.sub(l.splat(0.0), x));
    l.div(factor, l.add(l.splat(1.0), grown))
}

/// The normal distribution above x, for x >= 0: erfc(x / sqrt(2)) / 2 within 1e-7.
///
/// Abramowitz and Stegun, formula 7.1.26, its argument and its factor put into the constants.
#[inline(always)]
pub(crate) fn normal_tail<L: Lanes>(l: L, x: L::F) -> L::F {
    // Half of the formula's coefficients, the fifth first.
    const TERMS: [f32; 5] = [0.530_702_7, -0.726_576_03, 0.710_706_9, -0.142_248_37, 0.127_414_8];
    // 0.3275911 / sqrt(2).
    let t = l.div(l.splat(1.0), l.fma(x, l.splat(0.231_641_89), l.splat(1.0)));
    let mut sum = l.splat(TERMS[0]);
    for term in [TERMS[1], TERMS[2], TERMS[3], TERMS[4]] {
        sum = l.fma(sum, t, l.splat(term));
    }
    let density = l.exp(l.mul(l.mul(x, x), l.splat(-0.5)));
    l.mul(l.mul(sum, t), density)
}
