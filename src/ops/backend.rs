//! Where operations run.
use super::{
    OpError,
    cpu::{row_buffers::RowBuffers, workers::Workers},
};
use std::{num::NonZeroUsize, sync::Arc};

/// Where operations run.
#[derive(Clone)]
pub enum Backend {
    /// The host's processor.
    Cpu(Arc<CpuBackend>),
}

/// Threads and instruction set of the CPU backend.
///
/// Neither changes a result: every reduction has one order, and all instruction sets give the same bits.
pub struct CpuBackend {
    workers: Option<Workers>,
    buffers: RowBuffers,
    threads: usize,
    instruction_set: InstructionSet,
}

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
    fn choose(requested: Option<std::ffi::OsString>) -> Result<Self, OpError> {
        let available = Self::available();
        let Some(requested) = requested else {
            return Ok(available[0]);
        };
        let requested = requested.to_string_lossy().into_owned();
        let named = available.into_iter().find(|set| set.name() == requested);
        named.ok_or_else(|| Self::refuse(requested))
    }

    fn refuse(requested: String) -> OpError {
        let names: Vec<_> = Self::available().into_iter().map(Self::name).collect();
        OpError::InstructionSet { requested, available: names.join(", ") }
    }
}

impl CpuBackend {
    /// A backend of `threads` threads, the calling thread among them.
    ///
    /// # Errors
    /// [`OpError::InstructionSet`] when this processor lacks `instruction_set`; [`OpError::Threads`] when the system refuses threads.
    pub fn new(threads: NonZeroUsize, instruction_set: InstructionSet) -> Result<Self, OpError> {
        if !instruction_set.is_available() {
            return Err(InstructionSet::refuse(instruction_set.name().to_owned()));
        }
        let threads = threads.get();
        let refused = |error: std::io::Error| OpError::Threads { threads, reason: error.to_string() };
        let workers = match threads - 1 {
            0 => None,
            count => Some(Workers::start(count).map_err(refused)?),
        };
        Ok(Self { workers, buffers: RowBuffers::default(), threads, instruction_set })
    }

    /// Number of threads, the calling thread among them.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The vector instructions in use.
    pub fn instruction_set(&self) -> InstructionSet {
        self.instruction_set
    }

    /// Memory for rows that the linear layer lays out.
    pub(super) fn row_buffers(&self) -> &RowBuffers {
        &self.buffers
    }

    /// The threads beside the calling one.
    pub(super) fn workers(&self) -> Option<&Workers> {
        self.workers.as_ref()
    }
}

impl Backend {
    /// The CPU with `threads` worker threads (`None`: all cores). More than the machine runs at once would only wait for one
    /// another, so they are not started.
    ///
    /// The fastest instruction set of this processor is taken; the environment variable `LONGWICK_ISA`
    /// (`avx512`, `avx2`, `portable`) names another, for tests.
    ///
    /// # Errors
    /// [`OpError::InstructionSet`] when `LONGWICK_ISA` names one that is not there; [`OpError::Threads`].
    pub fn cpu(threads: Option<NonZeroUsize>) -> Result<Self, OpError> {
        let cores = std::thread::available_parallelism().unwrap_or(threads.unwrap_or(NonZeroUsize::MIN));
        let threads = threads.unwrap_or(cores);
        if threads > cores {
            tracing::warn!(
                "{threads} threads asked for; this machine runs {cores} at once, so {cores} are used"
            );
        }
        let threads = threads.min(cores);
        Ok(Self::Cpu(Arc::new(CpuBackend::new(
            threads,
            InstructionSet::choose(std::env::var_os("LONGWICK_ISA"))?,
        )?)))
    }

    /// The candle device activations live on.
    pub fn device(&self) -> candle_core::Device {
        match self {
            Self::Cpu(_) => candle_core::Device::Cpu,
        }
    }

    /// For run records: `cpu/avx512`, `cpu/avx2+fma`, `cpu/portable`.
    pub fn arithmetic(&self) -> String {
        match self {
            Self::Cpu(cpu) => match cpu.instruction_set {
                InstructionSet::Avx2 => "cpu/avx2+fma".to_owned(),
                other => format!("cpu/{}", other.name()),
            },
        }
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        match self {
            Self::Cpu(cpu) => cpu.threads,
        }
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

    #[test]
    fn run_records_name_the_arithmetic() {
        let threads = NonZeroUsize::new(3).unwrap();
        let backend = Backend::Cpu(Arc::new(CpuBackend::new(threads, InstructionSet::Portable).unwrap()));
        assert_eq!((backend.arithmetic().as_str(), backend.threads()), ("cpu/portable", 3));
    }
}
