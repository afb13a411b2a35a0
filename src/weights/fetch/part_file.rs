//! A download in progress: a sibling of the file it becomes, checked before it takes that name.
use crate::weights::hex;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::FetchError;
use super::progress::FetchProgress;
use crate::weights::lock::{Checked, LockedFile, modified_ns};

const READ_BYTES: usize = 1 << 20;

/// What a file has to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) bytes: Option<u64>,
    pub(super) checksum: Option<Checksum>,
}

/// A published checksum, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Checksum {
    /// sha256 pinned in a manifest.
    Pinned(String),
    /// sha256 that the hub publishes for a file in large file storage.
    HubSha256(String),
    /// The id of the git object: sha1 over `blob <length>\0` and the content.
    HubGitId(String),
}

impl Checksum {
    fn value(&self) -> &str {
        match self {
            Self::Pinned(value) | Self::HubSha256(value) | Self::HubGitId(value) => value,
        }
    }
}

/// The sums of some content.
pub(super) struct Sums {
    sha256: Sha256,
    git: Option<Sha1>,
}

impl Sums {
    pub(super) fn new(expected: &Expected) -> Self {
        // The git id hashes the length first, so it can be computed only where the length is known beforehand.
        let git = match (&expected.checksum, expected.bytes) {
            (Some(Checksum::HubGitId(_)), Some(bytes)) => {
                Some(Sha1::new_with_prefix(format!("blob {bytes}\0")))
            }
            _ => None,
        };
        Self { sha256: Sha256::new(), git }
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.sha256.update(bytes);
        if let Some(git) = &mut self.git {
            git.update(bytes);
        }
    }

    fn finish(self) -> (String, Option<String>) {
        (hex(&self.sha256.finalize()), self.git.map(|git| hex(&git.finalize())))
    }
}

/// How a content differs from what was expected.
pub(super) enum Difference {
    Length { expected: u64, actual: u64 },
    Checksum { algorithm: &'static str, expected: String, actual: String },
}

/// Compares content with what is expected; gives its sha256, and what it was compared with.
pub(super) fn compare(sums: Sums, bytes: u64, expected: &Expected) -> (String, Result<Checked, Difference>) {
    let (sha256, git) = sums.finish();
    if let Some(length) = expected.bytes.filter(|length| *length != bytes) {
        return (sha256, Err(Difference::Length { expected: length, actual: bytes }));
    }
    let (algorithm, actual, checked) = match &expected.checksum {
        None => return (sha256, Ok(Checked::FirstSeen)),
        Some(Checksum::Pinned(_)) => ("sha256", Some(sha256.clone()), Checked::Manifest),
        Some(Checksum::HubSha256(_)) => ("sha256", Some(sha256.clone()), Checked::HubSha256),
        Some(Checksum::HubGitId(_)) => ("git object id", git, Checked::HubGitId),
    };
    let wanted = expected.checksum.as_ref().map(Checksum::value).unwrap_or_default();
    match actual {
        Some(actual) if actual.eq_ignore_ascii_case(wanted) => (sha256, Ok(checked)),
        Some(actual) => {
            (sha256, Err(Difference::Checksum { algorithm, expected: wanted.to_string(), actual }))
        }
        None => (sha256, Ok(Checked::FirstSeen)),
    }
}

/// Reads a file and compares it with what is expected.
pub(super) fn check_file(
    path: &Path,
    name: &str,
    expected: &Expected,
    progress: &mut dyn FetchProgress,
) -> Result<Result<LockedFile, Difference>, FetchError> {
    let reading = |error| FetchError::io("reading", path, error);
    let mut file = File::open(path).map_err(reading)?;
    let metadata = file.metadata().map_err(reading)?;
    if let Some(length) = expected.bytes.filter(|length| *length != metadata.len()) {
        return Ok(Err(Difference::Length { expected: length, actual: metadata.len() }));
    }
    progress.begin(&format!("checking {name}"), Some(metadata.len()), 0);
    let mut sums = Sums::new(expected);
    let read = read_all(&mut file, |bytes| {
        sums.update(bytes);
        progress.advance(bytes.len() as u64);
    });
    progress.finish();
    let bytes = read.map_err(reading)?;
    let (sha256, verdict) = compare(sums, bytes, expected);
    let locked = |checked| LockedFile {
        path: name.to_string(),
        bytes,
        sha256: sha256.clone(),
        checked,
        modified_ns: modified_ns(&metadata),
    };
    Ok(verdict.map(locked))
}

fn read_all(file: &mut File, mut each: impl FnMut(&[u8])) -> std::io::Result<u64> {
    let mut buffer = vec![0; READ_BYTES];
    let mut total = 0;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(total),
            Ok(count) => {
                each(&buffer[..count]);
                total += count as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The sibling that a download is written to: `<name>.<tag>.part`.
///
/// The tag is the beginning of the expected checksum, so that a download never goes on from another version's bytes.
pub(super) struct PartFile {
    destination: PathBuf,
    name: String,
    path: PathBuf,
    file: File,
    expected: Expected,
    sums: Sums,
    length: u64,
}

impl PartFile {
    /// Opens the sibling of `destination` and hashes what an earlier try left.
    pub(super) fn open(
        destination: &Path,
        name: &str,
        version: &str,
        expected: Expected,
    ) -> Result<Self, FetchError> {
        let tag = expected.checksum.as_ref().map_or(version, Checksum::value);
        let tag: String = tag.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        let path = sibling(destination, &format!("{tag}.part"));
        if let Some(folder) = destination.parent() {
            std::fs::create_dir_all(folder).map_err(|error| FetchError::io("creating", folder, error))?;
        }
        let opening = |error| FetchError::io("opening", &path, error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(opening)?;
        let mut sums = Sums::new(&expected);
        let length = read_all(&mut file, |bytes| sums.update(bytes)).map_err(opening)?;
        let mut part = Self {
            destination: destination.to_path_buf(),
            name: name.to_string(),
            path,
            file,
            expected,
            sums,
            length,
        };
        if part.expected.bytes.is_some_and(|bytes| part.length > bytes) {
            part.restart()?;
        }
        Ok(part)
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn expected(&self) -> &Expected {
        &self.expected
    }

    pub(super) fn is_complete(&self) -> bool {
        self.expected.bytes == Some(self.length)
    }

    /// Drops what was written.
    pub(super) fn restart(&mut self) -> Result<(), FetchError> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)))
            .map_err(|error| FetchError::io("emptying", &self.path, error))?;
        self.sums = Sums::new(&self.expected);
        self.length = 0;
        Ok(())
    }

    /// Writes on. `false`: these bytes would pass the expected length; nothing was written.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<bool, FetchError> {
        let after = self.length + bytes.len() as u64;
        if self.expected.bytes.is_some_and(|expected| after > expected) {
            return Ok(false);
        }
        self.file.write_all(bytes).map_err(|error| FetchError::io("writing", &self.path, error))?;
        self.sums.update(bytes);
        self.length = after;
        Ok(true)
    }

    /// Checks the content; right, it takes its name, wrong, it is kept under another.
    pub(super) fn finish(self) -> Result<LockedFile, FetchError> {
        self.file.sync_all().map_err(|error| FetchError::io("writing", &self.path, error))?;
        let (sha256, verdict) = compare(self.sums, self.length, &self.expected);
        let checked = match verdict {
            Ok(checked) => checked,
            Err(difference) => {
                let kept = set_aside(&self.path, &self.destination, &sha256)?;
                return Err(wrong_content(difference, self.destination, kept));
            }
        };
        let renaming = |error| FetchError::io("renaming to", &self.destination, error);
        std::fs::rename(&self.path, &self.destination).map_err(renaming)?;
        if let Some(folder) = self.destination.parent() {
            // Without this the rename itself may be lost in a power cut.
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(renaming)?;
        }
        let metadata = std::fs::metadata(&self.destination).map_err(renaming)?;
        Ok(LockedFile {
            path: self.name,
            bytes: self.length,
            sha256,
            checked,
            modified_ns: modified_ns(&metadata),
        })
    }
}

pub(super) fn wrong_content(difference: Difference, path: PathBuf, kept: PathBuf) -> FetchError {
    match difference {
        Difference::Length { expected, actual } => FetchError::WrongLength { path, expected, actual, kept },
        Difference::Checksum { algorithm, expected, actual } => {
            FetchError::WrongChecksum { path, algorithm, expected, actual, kept }
        }
    }
}

/// Moves a file with wrong content to `<name>.bad-<sum>`, and says where that is.
pub(super) fn set_aside(path: &Path, destination: &Path, sha256: &str) -> Result<PathBuf, FetchError> {
    let kept = sibling(destination, &format!("bad-{}", &sha256[..sha256.len().min(12)]));
    std::fs::rename(path, &kept).map_err(|error| FetchError::io("renaming to", &kept, error))?;
    Ok(kept)
}

fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(content: &[u8], checksum: Checksum) -> Expected {
        Expected { bytes: Some(content.len() as u64), checksum: Some(checksum) }
    }

    /// `printf 'hello\n' | git hash-object --stdin`.
    const HELLO_GIT: &str = "ce013625030ba8dba906f756967f9e9ca394464a";
    /// `printf 'hello\n' | sha256sum`.
    const HELLO_SHA256: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

    #[test]
    fn sums_are_those_of_git_and_sha256sum() {
        for checksum in [Checksum::HubGitId(HELLO_GIT.into()), Checksum::Pinned(HELLO_SHA256.into())] {
            let expected = expected(b"hello\n", checksum);
            let mut sums = Sums::new(&expected);
            sums.update(b"hel");
            sums.update(b"lo\n");
            let (sha256, verdict) = compare(sums, 6, &expected);
            assert_eq!(sha256, HELLO_SHA256);
            assert!(verdict.is_ok());
        }
    }

    #[test]
    fn a_part_goes_on_from_what_an_earlier_try_left() {
        let folder = tempfile::tempdir().expect("folder");
        let destination = folder.path().join("sub/model.gguf");
        let open = || {
            let expected = expected(b"hello\n", Checksum::Pinned(HELLO_SHA256.into()));
            PartFile::open(&destination, "sub/model.gguf", "v", expected).expect("opens")
        };
        let mut part = open();
        assert!(part.append(b"hel").expect("writes"));
        drop(part);
        let mut part = open();
        assert_eq!(part.length(), 3);
        assert!(!part.append(b"lo\n and more").expect("refused"), "past the expected length");
        assert!(part.append(b"lo\n").expect("writes"));
        assert!(part.is_complete());
        let locked = part.finish().expect("right content");
        assert_eq!((locked.bytes, locked.checked), (6, Checked::Manifest));
        assert_eq!(std::fs::read(&destination).expect("there"), b"hello\n");
        assert_eq!(std::fs::read_dir(folder.path().join("sub")).expect("folder").count(), 1);
    }

    #[test]
    fn wrong_content_is_kept_under_another_name() {
        let folder = tempfile::tempdir().expect("folder");
        let destination = folder.path().join("model.gguf");
        let expected = expected(b"hello\n", Checksum::Pinned(HELLO_SHA256.into()));
        let mut part = PartFile::open(&destination, "model.gguf", "v", expected).expect("opens");
        part.append(b"jello\n").expect("writes");
        let error = part.finish().expect_err("wrong");
        let FetchError::WrongChecksum { expected, actual, kept, .. } = &error else { panic!("{error}") };
        assert_eq!(expected, HELLO_SHA256);
        assert_ne!(actual, expected);
        assert_eq!(std::fs::read(kept).expect("kept"), b"jello\n");
        assert!(!destination.exists());
        let text = error.to_string();
        assert!(text.contains(expected) && text.contains(actual) && text.contains("bad-"), "{text}");
    }
}
