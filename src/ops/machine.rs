//! What this machine and this build have to run on.
use super::{Backend, DeviceChoice, InstructionSet};
use serde::Serialize;

/// What there is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineReport {
    /// The processor.
    pub cpu: CpuReport,
    /// Whether the build has the kernels' emulator.
    pub emulator: bool,
    /// The GPU, and what stands between it and us.
    pub cuda: CudaReport,
}

/// The processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuReport {
    /// Instruction sets with kernels of ours, fastest first.
    pub instruction_sets: Vec<&'static str>,
    /// Threads that it runs at once.
    pub threads: usize,
    /// Bytes that the system can lend without swapping, where it says so.
    pub available_memory: Option<u64>,
}

/// CUDA on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CudaReport {
    /// Whether the build has it.
    pub is_built: bool,
    /// Architectures that our kernels were compiled for: `sm_80`.
    pub architectures: Vec<String>,
    /// The kernel driver's version, where the system has one.
    pub driver: Option<String>,
    /// Libraries that the process has loaded.
    pub libraries: Vec<LibraryReport>,
    /// The first GPU.
    pub device: Option<GpuReport>,
    /// Why it cannot be used, in a build that could.
    pub problem: Option<String>,
}

/// A loaded library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LibraryReport {
    /// `libcuda.so`.
    pub name: &'static str,
    /// Its file; `None` where it is not loaded.
    pub path: Option<String>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuReport {
    /// As its maker calls it.
    pub name: Option<String>,
    /// Backend and architecture: `cuda/sm_89`.
    pub arithmetic: String,
    /// Free bytes of its memory.
    pub free_memory: Option<u64>,
}

/// What CUDA builds load.
const LIBRARIES: [&str; 6] =
    ["libcuda.so", "libcudart.so", "libcublas.so", "libcublasLt.so", "libcurand.so", "libnvrtc.so"];

impl MachineReport {
    /// Looks around. A CUDA build opens the first GPU.
    pub fn new() -> Self {
        let cpu = CpuReport {
            instruction_sets: InstructionSet::available().into_iter().map(InstructionSet::name).collect(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            available_memory: available_memory(),
        };
        Self { cpu, emulator: cfg!(feature = "emu"), cuda: CudaReport::new() }
    }
}

impl Default for MachineReport {
    fn default() -> Self {
        Self::new()
    }
}

impl CudaReport {
    fn new() -> Self {
        let driver = std::fs::read_to_string("/proc/driver/nvidia/version").ok();
        let driver = driver.as_deref().and_then(driver_version);
        if !cfg!(feature = "cuda") {
            return Self { driver, ..Self::default() };
        }
        let opened = Backend::open(DeviceChoice::Cuda { ordinal: 0 }, None).and_then(|backend| {
            Ok(GpuReport {
                name: backend.device_name()?,
                arithmetic: backend.arithmetic(),
                free_memory: backend.free_device_memory()?,
            })
        });
        let (device, problem) = match opened {
            Ok(device) => (Some(device), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            is_built: true,
            architectures: architectures(),
            driver,
            libraries: libraries(),
            device,
            problem,
        }
    }
}

#[cfg(feature = "cuda")]
fn architectures() -> Vec<String> {
    longwick_kernels::ARCHITECTURES.split(',').map(|name| format!("sm_{name}")).collect()
}

#[cfg(not(feature = "cuda"))]
fn architectures() -> Vec<String> {
    Vec::new()
}

/// The libraries among those that the process has mapped.
fn libraries() -> Vec<LibraryReport> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let found = |name: &'static str| LibraryReport { name, path: mapped_library(&maps, name) };
    LIBRARIES.into_iter().map(found).collect()
}

/// The file of a library among a process's maps, whatever its version.
fn mapped_library(maps: &str, name: &str) -> Option<String> {
    let mut paths = maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..]));
    let is_it = |path: &&str| {
        path.rsplit('/')
            .next()
            .and_then(|file| file.strip_prefix(name))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    paths.find(is_it).map(str::to_owned)
}

/// The version in the text of `/proc/driver/nvidia/version`: the first word of digits and dots.
fn driver_version(text: &str) -> Option<String> {
    let is_version = |word: &&str| {
        word.contains('.') && word.chars().all(|character| character.is_ascii_digit() || character == '.')
    };
    text.split_whitespace().find(is_version).map(str::to_owned)
}

/// Memory the system can lend without swapping, in bytes, where the system says it.
pub fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_under_any_version() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 17    /usr/lib/libcublasLt.so.13.0.2
7f02-7f03 r--p 00000000 08:01 18    /usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06
7f04-7f05 rw-p 00000000 00:00 0     [heap]";
        let path = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06";
        assert_eq!(mapped_library(maps, "libcuda.so").as_deref(), Some(path));
        assert_eq!(mapped_library(maps, "libcublas.so"), None);
    }

    #[test]
    fn the_driver_s_version_stands_among_words() {
        let text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:08:28 UTC 2025
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)";
        assert_eq!(driver_version(text).as_deref(), Some("580.65.06"));
        assert_eq!(driver_version("none"), None);
    }

    #[test]
    fn the_cpu_is_always_there() {
        let report = MachineReport::new();
        assert_eq!(report.cpu.instruction_sets.last(), Some(&"portable"));
        assert!(report.cpu.threads >= 1);
        assert_eq!(report.cuda.is_built, cfg!(feature = "cuda"));
    }
}
