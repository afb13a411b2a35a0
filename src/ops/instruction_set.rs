//! The vector instructions of the CPU kernels.
use super::OpError;

/// The vector instructions that the CPU kernels use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InstructionSet {
    /// AVX-512 F, BW, DQ, VL and VNNI.
    Avx512,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// Plain Rust; runs everywhere.
    Portable,
}

impl InstructionSet {
    /// All, fastest first.
    pub const ALL: [Self; 3] = [Self::Avx512, Self::Avx2, Self::Portable];

    /// Whether this processor has it.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                Self::Avx2.is_available()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx2 => false,
            Self::Portable => true,
        }
    }

    /// Those that this processor has, fastest first.
    pub fn available() -> Vec<Self> {
        Self::ALL.into_iter().filter(|set| set.is_available()).collect()
    }

    /// The name that `LONGWICK_ISA` takes: `avx512`, `avx2` or `portable`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Portable => "portable",
        }
    }

    /// The set that is asked for by name, else the fastest there is.
    pub(super) fn choose(requested: Option<std::ffi::OsString>) -> Result<Self, OpError> {
        let available = Self::available();
        let Some(requested) = requested else {
            return Ok(available[0]);
        };
        let requested = requested.to_string_lossy().into_owned();
        let named = available.into_iter().find(|set| set.name() == requested);
        named.ok_or_else(|| Self::refuse(requested))
    }

    pub(super) fn refuse(requested: String) -> OpError {
        let names: Vec<_> = Self::available().into_iter().map(Self::name).collect();
        OpError::InstructionSet { requested, available: names.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_set_is_chosen_by_name_or_refused_with_what_there_is() {
        assert_eq!(InstructionSet::choose(None).unwrap(), InstructionSet::available()[0]);
        assert_eq!(InstructionSet::choose(Some("portable".into())).unwrap(), InstructionSet::Portable);
        let error = InstructionSet::choose(Some("sse9".into())).unwrap_err().to_string();
        assert!(error.starts_with("instruction set \"sse9\" is not available; this processor has: "));
        assert!(error.ends_with("portable"));
    }
}
