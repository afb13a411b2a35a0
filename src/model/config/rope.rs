//! [`RopeSettings`]: inverse frequencies of the rotary embedding.

/// How frequencies are stretched for long contexts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Every frequency divided by `factor`.
    Linear {
        /// Context multiplier.
        factor: f32,
    },
    /// Llama 3.1: low frequencies divided by `factor`, a smooth passage, high frequencies as they are.
    Llama3 {
        /// Context multiplier.
        factor: f32,
        /// Wavelengths above `original_context / low_frequency_factor` are divided.
        low_frequency_factor: f32,
        /// Wavelengths below `original_context / high_frequency_factor` stay.
        high_frequency_factor: f32,
        /// Context length before stretching, in tokens.
        original_context: f32,
    },
    /// Gemma 4's full layers: the first pairs rotate with the frequencies of a whole head, divided by `factor`; the
    /// others stand still.
    Proportional {
        /// Pairs that rotate.
        rotating_pairs: usize,
        /// Context multiplier.
        factor: f32,
    },
    /// YaRN.
    Yarn(Yarn),
}

/// YaRN: pairs that turn often within the original context stay, slow ones are stretched, with a linear ramp over the
/// pairs in between.
///
/// # Source
/// Peng et al. 2023, YaRN: Efficient Context Window Extension; arithmetic as in HF transformers 5.24.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Yarn {
    /// Context multiplier.
    pub factor: f32,
    /// Context length before stretching, in tokens.
    pub original_context: f32,
    /// Turns within the original context from which on a pair stays.
    pub beta_fast: f32,
    /// Turns up to which a pair is stretched in full.
    pub beta_slow: f32,
    /// Whether the ramp's ends are rounded outwards to whole pairs.
    pub truncate: bool,
    /// Multiplies cosine and sine.
    pub attention_factor: f32,
}

impl Yarn {
    /// The usual `attention_factor`: `0.1 mscale ln(factor) + 1`, and 1 where the context does not grow.
    pub fn default_attention_factor(factor: f32, mscale: f32) -> f64 {
        if factor <= 1.0 { 1.0 } else { 0.1 * f64::from(mscale) * f64::from(factor).ln() + 1.0 }
    }

    /// First and last pair of the ramp.
    fn ramp(&self, theta: f32, rotary_dim: usize) -> (f64, f64) {
        let pair_of = |turns: f32| {
            let wavelength =
                f64::from(self.original_context) / (f64::from(turns) * 2.0 * std::f64::consts::PI);
            rotary_dim as f64 * wavelength.ln() / (2.0 * f64::from(theta).ln())
        };
        let (mut low, mut high) = (pair_of(self.beta_fast), pair_of(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low.max(0.0), high.min(rotary_dim as f64 - 1.0))
    }
}

/// The rotary embedding of one kind of layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RopeSettings {
    /// Base of the geometric series.
    pub theta: f32,
    /// Elements of a head that rotate.
    pub rotary_dim: usize,
    /// Stretching.
    pub scaling: RopeScaling,
}

impl RopeSettings {
    /// `[rotary_dim / 2]`: `theta^(-2i / rotary_dim)` in f32, as HF transformers computes it, then scaled.
    pub fn inverse_frequencies(&self) -> Vec<f32> {
        let power = |pair: usize| self.theta.powf((2 * pair) as f32 / self.rotary_dim as f32);
        let pairs = 0..self.rotary_dim / 2;
        let RopeScaling::Yarn(yarn) = self.scaling else {
            return pairs.map(|pair| self.scale(pair, 1.0 / power(pair))).collect();
        };
        let (low, high) = yarn.ramp(self.theta, self.rotary_dim);
        let length = if low == high { 0.001 } else { (high - low) as f32 };
        let stretch = |pair: usize| {
            let stretched_share = ((pair as f32 - low as f32) / length).clamp(0.0, 1.0);
            let (power, kept_share) = (power(pair), 1.0 - stretched_share);
            1.0 / (yarn.factor * power) * (1.0 - kept_share) + 1.0 / power * kept_share
        };
        pairs.map(stretch).collect()
    }

    /// Multiplies cosine and sine: 1 but for YaRN.
    pub fn attention_scaling(&self) -> f32 {
        match self.scaling {
            RopeScaling::Yarn(yarn) => yarn.attention_factor,
            _ => 1.0,
        }
    }

    fn scale(&self, pair: usize, frequency: f32) -> f32 {
        match self.scaling {
            // YaRN goes by the pair, not by its frequency.
            RopeScaling::None | RopeScaling::Yarn(_) => frequency,
            RopeScaling::Proportional { rotating_pairs, .. } if pair >= rotating_pairs => 0.0,
            RopeScaling::Proportional { factor, .. } => frequency / factor,
            RopeScaling::Linear { factor } => frequency / factor,
            RopeScaling::Llama3 { factor, low_frequency_factor, high_frequency_factor, original_context } => {
                let wavelength = 2.0 * std::f32::consts::PI / frequency;
                if wavelength > original_context / low_frequency_factor {
                    frequency / factor
                } else if wavelength < original_context / high_frequency_factor {
                    frequency
                } else {
                    let smooth = (original_context / wavelength - low_frequency_factor)
                        / (high_frequency_factor - low_frequency_factor);
                    (1.0 - smooth) * frequency / factor + smooth * frequency
                }
            }
        }
    }
}
