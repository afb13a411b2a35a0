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
        (0..self.rotary_dim / 2)
            .map(|i| {
                let exponent = (2 * i) as f32 / self.rotary_dim as f32;
                self.scale(i, 1.0 / self.theta.powf(exponent))
            })
            .collect()
    }

    fn scale(&self, pair: usize, frequency: f32) -> f32 {
        match self.scaling {
            RopeScaling::None => frequency,
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
