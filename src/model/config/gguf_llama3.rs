//! Llama 3's scaling in GGUF files: `rope_freqs.weight`, a divisor for each frequency, in place of the numbers it comes of.

use super::{RopeScaling, RopeSettings};

/// What all published Llama 3 models have, and the divisors do not tell apart from the original context.
const LOW_FREQUENCY_FACTOR: f32 = 1.0;
const HIGH_FREQUENCY_FACTOR: f32 = 4.0;
/// How far a frequency may lie from what the divisors ask for, as a share of it.
const TOLERANCE: f32 = 1e-4;

/// The scaling that gives these divisors of `unscaled`'s frequencies; `None` where Llama 3's gives others.
///
/// # Source
/// The rule of Llama 3.1, as HF transformers 5.24 has it; llama.cpp's converter writes the divisors.
pub(super) fn scaling(divisors: &[f32], unscaled: RopeSettings) -> Option<RopeScaling> {
    let factor = divisors.iter().copied().fold(1.0, f32::max);
    if factor == 1.0 {
        return divisors.iter().all(|&divisor| divisor == 1.0).then_some(RopeScaling::None);
    }
    let frequencies = unscaled.inverse_frequencies();
    // A pair in the passage between the undivided and the divided tells where the passage lies.
    let is_between = |divisor: f32| divisor > 1.0 + TOLERANCE && divisor < factor * (1.0 - TOLERANCE);
    let (divisor, frequency) =
        divisors.iter().zip(&frequencies).find(|&(&divisor, _)| is_between(divisor))?;
    let kept_share = (1.0 / divisor - 1.0 / factor) / (1.0 - 1.0 / factor);
    let wavelengths = LOW_FREQUENCY_FACTOR + kept_share * (HIGH_FREQUENCY_FACTOR - LOW_FREQUENCY_FACTOR);
    let scaling = RopeScaling::Llama3 {
        factor,
        low_frequency_factor: LOW_FREQUENCY_FACTOR,
        high_frequency_factor: HIGH_FREQUENCY_FACTOR,
        original_context: (wavelengths * 2.0 * std::f32::consts::PI / frequency).round(),
    };
    let scaled = RopeSettings { scaling, ..unscaled }.inverse_frequencies();
    let agrees = |((scaled, frequency), divisor): ((&f32, &f32), &f32)| {
        (scaled * divisor / frequency - 1.0).abs() <= TOLERANCE
    };
    let all_agree = scaled.iter().zip(&frequencies).zip(divisors).all(agrees);
    (divisors.len() == frequencies.len() && all_agree).then_some(scaling)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the converter computes them.
    fn divisors(factor: f64, original_context: f64, theta: f64, dim: usize) -> Vec<f32> {
        let divisor = |pair: usize| {
            let wavelength = 2.0 * std::f64::consts::PI * theta.powf((2 * pair) as f64 / dim as f64);
            if wavelength < original_context / 4.0 {
                return 1.0;
            }
            if wavelength > original_context {
                return factor;
            }
            let smooth = (original_context / wavelength - 1.0) / 3.0;
            1.0 / ((1.0 - smooth) / factor + smooth)
        };
        (0..dim / 2).map(|pair| divisor(pair) as f32).collect()
    }

    fn unscaled(theta: f32, rotary_dim: usize) -> RopeSettings {
        RopeSettings { theta, rotary_dim, scaling: RopeScaling::None }
    }

    #[test]
    fn published_divisors_give_the_numbers_they_come_of() {
        for (factor, original_context, theta, dim) in
            [(8.0, 8192.0, 500_000.0, 128), (32.0, 8192.0, 500_000.0, 64), (4.0, 777.0, 10_000.0, 80)]
        {
            let found = scaling(&divisors(factor, original_context, theta, dim), unscaled(theta as f32, dim));
            let expected = RopeScaling::Llama3 {
                factor: factor as f32,
                low_frequency_factor: 1.0,
                high_frequency_factor: 4.0,
                original_context: original_context as f32,
            };
            assert_eq!(found, Some(expected));
        }
        assert_eq!(scaling(&[1.0; 32], unscaled(10_000.0, 64)), Some(RopeScaling::None));
    }

    #[test]
    fn other_divisors_are_not_taken_for_llama_3s() {
        let published = divisors(8.0, 8192.0, 500_000.0, 128);
        for (pair, divisor) in [(0, 1.01), (34, 2.0), (63, 7.9), (10, 0.5), (5, f32::NAN)] {
            let mut divisors = published.clone();
            divisors[pair] = divisor;
            assert_eq!(scaling(&divisors, unscaled(500_000.0, 128)), None, "{pair}: {divisor}");
        }
        assert_eq!(scaling(&published[1..], unscaled(500_000.0, 128)), None, "too few");
        assert_eq!(scaling(&[1.0, 1.0, 8.0, 8.0], unscaled(10_000.0, 8)), None, "no passage");
    }
}
