//! Where operations run.
#[cfg(feature = "kernels")]
use super::device::DeviceBackend;
use super::{
    InstructionSet, OpError,
    cpu::{row_buffers::RowBuffers, workers::Workers},
};
use std::{num::NonZeroUsize, sync::Arc};

/// A device, as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The host's processor.
    #[default]
    Cpu,
    /// The emulator of the CUDA kernels.
    Emu,
    /// An NVIDIA GPU.
    Cuda {
        /// Its number among those that the driver shows.
        ordinal: usize,
    },
}

impl DeviceChoice {
    /// Refuses a device that the build does not have.
    ///
    /// # Errors
    /// [`OpError::NoDevice`] says how to get it.
    pub fn require(self) -> Result<(), OpError> {
        match self {
            Self::Emu if !cfg!(feature = "emu") => Err(OpError::NoDevice {
                device: "emu",
                remedy: "`cargo build --release --features emu` builds one that has it",
            }),
            Self::Cuda { .. } if !cfg!(feature = "cuda") => Err(OpError::NoDevice {
                device: "cuda",
                remedy: "scripts/build_cuda.sh builds one that has it, and README.md says what that needs",
            }),
            _ => Ok(()),
        }
    }
}

/// Where operations run.
#[derive(Clone)]
pub enum Backend {
    /// The host's processor.
    Cpu(Arc<CpuBackend>),
    /// The kernels, on a GPU or on their emulator.
    #[cfg(feature = "kernels")]
    Device(Arc<DeviceBackend>),
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

    /// The device that is asked for. `threads` work on the host, where the device is one, and beside it.
    ///
    /// # Errors
    /// [`OpError::NoDevice`] when the build has no such device; [`OpError::Driver`] when the machine has none; as [`Self::cpu`].
    pub fn open(choice: DeviceChoice, threads: Option<NonZeroUsize>) -> Result<Self, OpError> {
        choice.require()?;
        let cpu = Self::cpu(threads)?;
        #[cfg(feature = "emu")]
        if choice == DeviceChoice::Emu {
            return Ok(Self::Device(Arc::new(DeviceBackend::emu(Arc::clone(cpu.host())))));
        }
        #[cfg(feature = "cuda")]
        if let DeviceChoice::Cuda { ordinal } = choice {
            return Ok(Self::Device(Arc::new(DeviceBackend::cuda(ordinal, Arc::clone(cpu.host()))?)));
        }
        Ok(cpu)
    }

    /// The host's threads: those that the CPU computes on, and those that load weights for a device.
    pub fn host(&self) -> &Arc<CpuBackend> {
        match self {
            Self::Cpu(cpu) => cpu,
            #[cfg(feature = "kernels")]
            Self::Device(device) => device.host(),
        }
    }

    /// The GPU, where the backend is one.
    #[cfg(feature = "cuda")]
    pub(super) fn cuda(&self) -> Option<&super::device::cuda::CudaPlace> {
        match self {
            Self::Cpu(_) => None,
            Self::Device(device) => device.as_cuda(),
        }
    }

    /// Refuses what only the CPU runs: an operation without a kernel, or a kind of layer that needs one.
    ///
    /// # Errors
    /// [`OpError::NotOnDevice`] on a device.
    pub fn require_cpu(&self, operation: &'static str) -> Result<(), OpError> {
        self.only_cpu(operation).map(|_| ())
    }

    /// The CPU, for an operation without a kernel.
    #[cfg_attr(not(feature = "kernels"), expect(unused_variables, reason = "nothing but the CPU is there"))]
    pub(super) fn only_cpu(&self, operation: &'static str) -> Result<&CpuBackend, OpError> {
        match self {
            Self::Cpu(cpu) => Ok(cpu),
            #[cfg(feature = "kernels")]
            Self::Device(device) => Err(OpError::NotOnDevice { operation, device: device.name() }),
        }
    }

    /// The candle device activations live on.
    pub fn device(&self) -> candle_core::Device {
        match self {
            Self::Cpu(_) => candle_core::Device::Cpu,
            #[cfg(feature = "kernels")]
            Self::Device(device) => device.candle(),
        }
    }

    /// For run records: `cpu/avx512`, `cpu/avx2+fma`, `cpu/portable`, `emu`, `cuda/sm_89`.
    pub fn arithmetic(&self) -> String {
        match self {
            Self::Cpu(cpu) => match cpu.instruction_set {
                InstructionSet::Avx2 => "cpu/avx2+fma".to_owned(),
                other => format!("cpu/{}", other.name()),
            },
            #[cfg(feature = "kernels")]
            Self::Device(device) => device.arithmetic(),
        }
    }

    /// Whether a row's bits depend on that row alone, whatever else is computed with it. On CUDA they do not: candle's matrix
    /// products add up in an order that the number of rows decides.
    pub fn is_batch_invariant(&self) -> bool {
        match self {
            Self::Cpu(_) => true,
            #[cfg(feature = "kernels")]
            Self::Device(device) => device.is_batch_invariant(),
        }
    }

    /// Whether operations take tensors without rows. The CUDA driver refuses to allocate nothing.
    pub fn takes_empty_rows(&self) -> bool {
        match self {
            Self::Cpu(_) => true,
            #[cfg(feature = "kernels")]
            Self::Device(device) => device.takes_empty_rows(),
        }
    }

    /// What its maker calls the device; `None` where that is the host.
    ///
    /// # Errors
    /// [`OpError::Driver`].
    pub fn device_name(&self) -> Result<Option<String>, OpError> {
        match self {
            Self::Cpu(_) => Ok(None),
            #[cfg(feature = "kernels")]
            Self::Device(device) => device.maker_name(),
        }
    }

    /// Free bytes of the device's own memory; `None` where pools lie in the host's.
    ///
    /// # Errors
    /// [`OpError::Driver`].
    pub fn free_device_memory(&self) -> Result<Option<u64>, OpError> {
        match self {
            Self::Cpu(_) => Ok(None),
            #[cfg(feature = "kernels")]
            Self::Device(device) => device.free_memory(),
        }
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.host().threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_records_name_the_arithmetic() {
        let threads = NonZeroUsize::new(3).unwrap();
        let backend = Backend::Cpu(Arc::new(CpuBackend::new(threads, InstructionSet::Portable).unwrap()));
        assert_eq!((backend.arithmetic().as_str(), backend.threads()), ("cpu/portable", 3));
    }
}
