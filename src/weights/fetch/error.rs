//! What can go wrong when a model is looked up or fetched.
use std::io;
use std::path::{Path, PathBuf};

/// Why a model cannot be found, fetched or verified.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum FetchError {
    #[error("{}: not a manifest: {message}", path.display())]
    ManifestSyntax { path: PathBuf, message: String },
    #[error("{}: {field}: {reason}", path.display())]
    ManifestField { path: PathBuf, field: String, reason: String },
    #[error("{}: {message}", path.display())]
    Lock { path: PathBuf, message: String },
    #[error(
        "there is no model {spec:?}: neither a manifest ({}), nor a path, nor hf:owner/name",
        known.join(", ")
    )]
    UnknownModel { spec: String, known: Vec<String> },
    #[error(
        "{spec:?}: {reason}; write hf:owner/name, hf:owner/name@revision or hf:owner/name@revision:file.gguf"
    )]
    Spec { spec: String, reason: String },
    #[error("model {spec:?} is not on this machine; fetch it with: longwick models fetch {spec}")]
    NotPresent { spec: String },
    #[error("{}: no model: {reason}", path.display())]
    NotAModel { path: PathBuf, reason: String },
    #[error("{what} needs the network, and {variable} is set; unset it, then: longwick models fetch {spec}")]
    Offline { spec: String, what: String, variable: &'static str },
    #[error("{endpoint} has no repository {repo} that is open to you: {message}")]
    RepoNotFound { endpoint: String, repo: String, message: String },
    #[error("{endpoint}: repository {repo} has no revision {revision:?}")]
    RevisionNotFound { endpoint: String, repo: String, revision: String },
    #[error(
        "{endpoint} refuses {repo} (HTTP {status}): {message}. Accept the model's terms on {endpoint}/{repo}, then set \
         HF_TOKEN to a token of that account"
    )]
    Gated { endpoint: String, repo: String, status: u16, message: String },
    #[error("repository {repo} at {commit} has no file {pattern:?}")]
    NoSuchFile { repo: String, commit: String, pattern: String },
    #[error("repository {repo} holds several GGUF files; choose one with hf:{repo}:FILE out of: {}", files.join(", "))]
    SeveralGguf { repo: String, files: Vec<String> },
    #[error("repository {repo} lists the file {path:?}, which would lie outside the model's folder")]
    UnsafePath { repo: String, path: String },
    #[error("asking {endpoint} about {repo}")]
    Hub { endpoint: String, repo: String, source: Box<hf_hub::HFError> },
    #[error("{url}: {message}")]
    Http { url: String, message: String },
    #[error(
        "{url}: broken off after {received} of {} bytes, {attempts} times without progress ({message}); {} holds what \
         came, and the same command goes on from there",
        expected.map_or("unknown".to_string(), |bytes| bytes.to_string()), partial.display()
    )]
    Interrupted {
        url: String,
        received: u64,
        expected: Option<u64>,
        attempts: u32,
        message: String,
        partial: PathBuf,
    },
    #[error(
        "{}: wrong {algorithm}: expected {expected}, got {actual}; what came is kept as {}",
        path.display(), kept.display()
    )]
    WrongChecksum { path: PathBuf, algorithm: &'static str, expected: String, actual: String, kept: PathBuf },
    #[error("{}: expected {expected} bytes, got {actual}; what came is kept as {}", path.display(), kept.display())]
    WrongLength { path: PathBuf, expected: u64, actual: u64, kept: PathBuf },
    #[error("no pip found (tried {}); install Python with pip, or set LONGWICK_PIP", tried.join(", "))]
    NoPip { tried: Vec<String> },
    #[error("`{command}` failed ({status}): {stderr}")]
    Pip { command: String, status: String, stderr: String },
    #[error("{}: {reason}", path.display())]
    Wheel { path: PathBuf, reason: String },
    #[error("{}: the disk is full while {action}", path.display())]
    DiskFull { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{}: no permission for {action}", path.display())]
    Permission { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{}: {action} failed", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("none of the sources of {spec} works:\n  {}", failures.join("\n  "))]
    AllSources { spec: String, failures: Vec<String> },
}

impl FetchError {
    /// An error of the file system, told apart by what the user can do about it.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { action, path, source }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Permission { action, path, source }
            }
            _ => Self::Io { action, path, source },
        }
    }

    /// Whether another source may still succeed. A full disk or a wrong checksum is not passed over in silence.
    pub(super) fn concerns_source_only(&self) -> bool {
        matches!(
            self,
            Self::Offline { .. }
                | Self::RepoNotFound { .. }
                | Self::RevisionNotFound { .. }
                | Self::Gated { .. }
                | Self::NoSuchFile { .. }
                | Self::Hub { .. }
                | Self::Http { .. }
                | Self::Interrupted { .. }
                | Self::NoPip { .. }
                | Self::Pip { .. }
                | Self::NotAModel { .. }
        )
    }

    /// The error and its causes in one line.
    pub(super) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            let message = error.to_string();
            if !text.contains(&message) {
                text.push_str(": ");
                text.push_str(&message);
            }
            cause = error.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_errors_name_the_path_and_are_told_apart() {
        let path = Path::new("/cache/model.part");
        let of = |code| FetchError::io("writing", path, io::Error::from_raw_os_error(code));
        assert!(matches!(of(28), FetchError::DiskFull { .. }), "ENOSPC");
        assert!(matches!(of(13), FetchError::Permission { .. }), "EACCES");
        assert!(matches!(of(30), FetchError::Permission { .. }), "EROFS");
        assert!(matches!(of(5), FetchError::Io { .. }), "EIO");
        for code in [28, 13, 5] {
            assert!(of(code).to_string().contains("/cache/model.part"));
        }
    }
}
