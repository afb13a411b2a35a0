//! [`Quantization`]: the block formats that float weights can be stored in when a model is loaded.
use std::{fmt, str::FromStr};

use super::{WeightDtype, WeightsError};

/// A block format to quantise float weights to: every quantised type that the kernels read, but for MXFP4, which only
/// published checkpoints have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum Quantization {
    /// [`WeightDtype::Q8_0`].
    Q8_0,
    /// [`WeightDtype::Q6K`].
    Q6K,
    /// [`WeightDtype::Q5K`].
    Q5K,
    /// [`WeightDtype::Q5_0`].
    Q5_0,
    /// [`WeightDtype::Q4K`].
    Q4K,
    /// [`WeightDtype::Q4_1`].
    Q4_1,
    /// [`WeightDtype::Q4_0`].
    Q4_0,
}

impl Quantization {
    /// Every format, most bits first.
    pub const ALL: [Self; 7] =
        [Self::Q8_0, Self::Q6K, Self::Q5K, Self::Q5_0, Self::Q4K, Self::Q4_1, Self::Q4_0];

    /// How elements are then stored.
    pub fn dtype(self) -> WeightDtype {
        match self {
            Self::Q8_0 => WeightDtype::Q8_0,
            Self::Q6K => WeightDtype::Q6K,
            Self::Q5K => WeightDtype::Q5K,
            Self::Q5_0 => WeightDtype::Q5_0,
            Self::Q4K => WeightDtype::Q4K,
            Self::Q4_1 => WeightDtype::Q4_1,
            Self::Q4_0 => WeightDtype::Q4_0,
        }
    }

    /// The name that options take: ggml's in lower case (`q4_k`).
    pub fn name(self) -> &'static str {
        match self {
            Self::Q8_0 => "q8_0",
            Self::Q6K => "q6_k",
            Self::Q5K => "q5_k",
            Self::Q5_0 => "q5_0",
            Self::Q4K => "q4_k",
            Self::Q4_1 => "q4_1",
            Self::Q4_0 => "q4_0",
        }
    }

    /// Whether rows of so many elements are whole blocks.
    pub fn divides(self, width: usize) -> bool {
        width > 0 && width.is_multiple_of(self.dtype().block_elements())
    }
}

impl fmt::Display for Quantization {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl From<Quantization> for &'static str {
    fn from(format: Quantization) -> Self {
        format.name()
    }
}

impl FromStr for Quantization {
    type Err = WeightsError;

    /// # Errors
    /// [`WeightsError::UnknownQuantization`] lists the names there are.
    fn from_str(text: &str) -> Result<Self, WeightsError> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| {
            WeightsError::UnknownQuantization {
                found: text.to_owned(),
                known: Self::ALL.map(Self::name).join(", "),
            }
        })
    }
}

impl TryFrom<String> for Quantization {
    type Error = WeightsError;

    fn try_from(text: String) -> Result<Self, WeightsError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_unknown_ones_refused_with_what_there_is() {
        for format in Quantization::ALL {
            assert_eq!(format.name().parse::<Quantization>().unwrap(), format);
            assert_eq!(format.name(), format.dtype().name().to_lowercase());
        }
        for unknown in ["q3_k", "Q8_0", "mxfp4", "bf16", ""] {
            let error = unknown.parse::<Quantization>().unwrap_err().to_string();
            assert!(error.contains(&format!("{unknown:?}")) && error.contains("q8_0, q6_k, "), "{error}");
        }
    }

    #[test]
    fn all_quantised_types_but_mxfp4_are_formats() {
        let quantised = WeightDtype::ALL.into_iter().filter(|dtype| dtype.block_elements() > 1);
        let formats = Quantization::ALL.map(Quantization::dtype);
        for dtype in quantised {
            assert_eq!(formats.contains(&dtype), dtype != WeightDtype::Mxfp4, "{dtype}");
        }
    }
}
