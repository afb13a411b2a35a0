//! `longwick doctor`: what there is to run on.

use super::quantities::gib;
use super::{CliResult, Outcome};
use crate::ops::{CudaReport, MachineReport};
use crate::weights::fetch::FetchSettings;

/// Arguments of `longwick doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code 0: what the build has works. 2: it has CUDA, and no GPU can be used; the report says why."
)]
pub struct DoctorArgs {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

/// Looks around and reports.
///
/// # Errors
/// When standard output is closed or full.
pub fn run(args: DoctorArgs) -> CliResult {
    let report = MachineReport::new();
    let cache = FetchSettings::from_env().cache_root;
    if args.json {
        let report = serde_json::json!({
            "version": env!("CARGO_PKG_VERSION"),
            "cache": cache,
            "machine": report,
        });
        out_line!("{report:#}")?;
    } else {
        out_line!("longwick {}", env!("CARGO_PKG_VERSION"))?;
        let memory = report.cpu.available_memory.map_or("unknown".to_owned(), gib);
        let sets = report.cpu.instruction_sets.join(", ");
        out_line!("cpu      {} threads, {sets}; {memory} of memory free", report.cpu.threads)?;
        if report.emulator {
            out_line!("emu      the emulator of the CUDA kernels is built in")?;
        }
        print_cuda(&report.cuda)?;
        let state = if cache.is_dir() { "" } else { " (not made yet)" };
        out_line!("cache    {}{state}", cache.display())?;
    }
    Ok(if report.cuda.problem.is_some() { Outcome::Stopped } else { Outcome::Finished })
}

fn print_cuda(cuda: &CudaReport) -> std::io::Result<()> {
    let driver = cuda
        .driver
        .as_deref()
        .map_or("no NVIDIA driver".to_owned(), |version| format!("NVIDIA driver {version}"));
    if !cuda.is_built {
        out_line!("cuda     not in this build; {driver} on this machine")?;
        return out_line!(
            "         scripts/build_cuda.sh builds one that has it; README.md says what that needs"
        );
    }
    out_line!("cuda     kernels for {}; {driver}", cuda.architectures.join(", "))?;
    match (&cuda.device, &cuda.problem) {
        (Some(device), _) => {
            let memory = device.free_memory.map_or("unknown".to_owned(), gib);
            let name = device.name.as_deref().unwrap_or("a GPU without a name");
            out_line!("         {name} ({}); {memory} of its memory free", device.arithmetic)?;
        }
        (None, problem) => out_line!("         {}", problem.as_deref().unwrap_or("no device"))?,
    }
    for library in &cuda.libraries {
        out_line!("         {:<14} {}", library.name, library.path.as_deref().unwrap_or("not loaded"))?;
    }
    Ok(())
}
