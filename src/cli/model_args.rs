//! Arguments every command that loads a model shares.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};

use super::CliError;
use super::quantities::parse_bytes;
use crate::engine::{Engine, EngineError, EngineOptions, KvDirectoryOptions};
use crate::kv::disk::{DirectoryUse, KvDirectory};
use crate::ops::{DeviceChoice, KvDtype};
use crate::weights::Quantization;
use crate::weights::fetch::resolve_model;

/// Which model, and how it runs.
#[derive(Debug, Clone, clap::Args)]
pub struct ModelArgs {
    /// A name of `longwick models list`, a path to a GGUF file or HF folder, or hf:owner/name
    #[arg(long, short)]
    pub model: String,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub engine: EngineArgs,
}

/// How a model runs.
#[derive(Debug, Clone, clap::Args)]
pub struct EngineArgs {
    /// Where to run
    #[arg(long, value_enum, default_value_t = DeviceArg::Cpu)]
    pub device: DeviceArg,
    /// Worker threads [default: all cores]
    #[arg(long)]
    pub threads: Option<NonZeroUsize>,
    /// Quantise float weight matrices at load. Norms, routers, and embeddings that are only looked up by rows stay as the
    /// files have them, and so does what is quantised already; the vocabulary projection gets at least six bits
    #[arg(long, value_name = "FORMAT", value_parser = quantization_parser())]
    pub quantize: Option<Quantization>,
    /// Element type of cached keys and values; with bf16 and fp8 attention on a GPU runs on tensor cores
    #[arg(long, value_name = "TYPE", default_value_t, value_parser = kv_dtype_parser(&KvDtype::ALL))]
    pub kv_dtype: KvDtype,
    /// Size of the KV pool, e.g. 2GiB [default: one context, half of the free memory at most]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub kv_memory: Option<u64>,
    /// Size of the state slots of models with recurrent layers, e.g. 4GiB [default: for all sequences and some snapshots, a
    /// quarter of the free memory at most]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub state_memory: Option<u64>,
    /// Most tokens computed in one step
    #[arg(long, value_name = "TOKENS", default_value = "512")]
    pub chunk: NonZeroUsize,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub kv_cache: KvCacheArgs,
}

/// Where computed prompts are kept for later processes.
#[derive(Debug, Clone, clap::Args)]
pub struct KvCacheArgs {
    /// Keep keys and values of prompts in this folder, so that a later command need not compute them again. It holds the
    /// prompts' tokens too: keep it as private as the prompts
    #[arg(long, value_name = "DIR")]
    pub kv_cache: Option<PathBuf>,
    /// Most bytes that the folder keeps; the least recently used go first
    #[arg(long, value_name = "SIZE", default_value = "20GiB", value_parser = parse_bytes, requires = "kv_cache")]
    pub kv_cache_size: u64,
}

impl KvCacheArgs {
    /// The engine's option; the folder is made where it is missing.
    ///
    /// # Errors
    /// For a folder that cannot be.
    pub fn options(&self) -> Result<Option<KvDirectoryOptions>, CliError> {
        let Some(folder) = &self.kv_cache else { return Ok(None) };
        KvDirectory::prepare(folder).map_err(|error| format!("--kv-cache: {error}"))?;
        Ok(Some(KvDirectoryOptions { folder: folder.clone(), max_bytes: self.kv_cache_size }))
    }
}

/// What the folder did, in a sentence.
pub(super) fn kv_cache_line(folder: &std::path::Path, usage: DirectoryUse) -> String {
    let mib = usage.bytes_written as f64 / (1 << 20) as f64;
    let mut line = format!(
        "KV cache {}: {} prompt tokens restored, {} files of {mib:.0} MiB written",
        folder.display(),
        usage.restored_tokens,
        usage.files_written
    );
    if usage.files_dropped > 0 {
        line += &format!(", {} dropped to stay within --kv-cache-size", usage.files_dropped);
    }
    if usage.files_damaged > 0 {
        line += &format!(", {} found unusable and removed", usage.files_damaged);
    }
    line
}

/// A device by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceArg {
    /// The host's processor
    Cpu,
    /// The emulator of the CUDA kernels, slow and for tests
    #[cfg(feature = "emu")]
    Emu,
    /// An NVIDIA GPU
    Cuda,
}

impl From<DeviceArg> for DeviceChoice {
    fn from(device: DeviceArg) -> Self {
        match device {
            DeviceArg::Cpu => Self::Cpu,
            #[cfg(feature = "emu")]
            DeviceArg::Emu => Self::Emu,
            DeviceArg::Cuda => Self::Cuda { ordinal: 0 },
        }
    }
}

impl EngineArgs {
    /// The engine's options.
    ///
    /// # Errors
    /// For a device this build does not have.
    pub fn options(&self) -> Result<EngineOptions, CliError> {
        let device = self.device.into();
        DeviceChoice::require(device).map_err(|error| format!("--device: {error}"))?;
        Ok(EngineOptions {
            device,
            threads: self.threads,
            quantization: self.quantize,
            kv_dtype: self.kv_dtype,
            kv_pool_bytes: self.kv_memory,
            state_pool_bytes: self.state_memory,
            max_batch_tokens: self.chunk.get(),
            kv_directory: self.kv_cache.options()?,
            ..EngineOptions::default()
        })
    }
}

impl ModelArgs {
    /// Where the model's files are.
    ///
    /// # Errors
    /// When it is not on this machine; the message says how to fetch it.
    pub fn path(&self) -> Result<PathBuf, CliError> {
        Ok(resolve_model(&self.model)?)
    }

    /// Resolves the model, loads it with a progress bar on a terminal, and says on stderr what memory it holds.
    ///
    /// # Errors
    /// Whatever is wrong with the name, the files or the settings.
    pub fn load_engine(&self) -> Result<Engine, CliError> {
        let path = self.path()?;
        let engine = with_load_bar(|progress| {
            Engine::load(&path, self.engine.options()?, progress).map_err(with_option)
        })?;
        self.tell_loaded(&engine);
        for (prefix, tensors) in engine.skipped() {
            err_line!("{}: {tensors} tensors of {prefix} skipped: longwick reads text models", self.model);
        }
        Ok(engine)
    }

    /// Says on stderr what memory the model holds, and what was quantised.
    pub(super) fn tell_loaded(&self, engine: &Engine) {
        err_line!("{}: {}", self.model, engine.memory());
        if let Some(report) = engine.quantization() {
            err_line!("{}: {report}", self.model);
        }
    }

    /// Says on stderr what the folder of prefixes did, where there is one.
    pub(super) fn say_kv_cache(&self, engine: &Engine) {
        if let Some(folder) = &self.engine.kv_cache.kv_cache {
            err_line!("{}", kv_cache_line(folder, engine.stats().kv_directory));
        }
    }
}

/// The formats by name, which the help and errors list.
pub(super) fn quantization_parser() -> impl TypedValueParser<Value = Quantization> {
    PossibleValuesParser::new(Quantization::ALL.map(Quantization::name))
        .try_map(|name| name.parse::<Quantization>())
}

/// Element types of cached keys and values by name, likewise.
pub(super) fn kv_dtype_parser(dtypes: &[KvDtype]) -> impl TypedValueParser<Value = KvDtype> + use<> {
    let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    PossibleValuesParser::new(names).try_map(|name| name.parse::<KvDtype>())
}

/// An engine's error, in the words of the command line.
pub(super) fn with_option(error: EngineError) -> CliError {
    match error {
        EngineError::Setting { setting: "kv_pool_bytes", reason } => format!("--kv-memory: {reason}").into(),
        EngineError::Setting { setting: "state_pool_bytes", reason } => {
            format!("--state-memory: {reason}").into()
        }
        other => other.into(),
    }
}

/// Runs a load with a byte progress bar on stderr; the bar hides itself where stderr is no terminal.
///
/// # Errors
/// Those of the load.
pub fn with_load_bar<T>(
    load: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<T, CliError>,
) -> Result<T, CliError> {
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("loading {wide_bar} {bytes}/{total_bytes} {eta}") {
        bar.set_style(style);
    }
    let result = load(&mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    result
}
