//! Reading a protocol: the built-in one, or a file of the cache.

use super::{BUILT_IN, Protocol, ProtocolError};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

const BUILT_IN_TEXT: &str = include_str!("../../../configs/prompts/longwick-1.toml");

/// A protocol file is tens of kilobytes; a larger one than this is not a protocol.
pub(super) const MAX_FILE_BYTES: u64 = 16 << 20;

impl Protocol {
    /// The built-in `longwick-1`, or the named file of the cache. Never one in the place of another.
    ///
    /// # Errors
    /// [`ProtocolError::NotFound`] names the file looked for and the script that writes it; the others say what is
    /// wrong with the file that is there.
    pub fn load(name: &str) -> Result<Self, ProtocolError> {
        if name == BUILT_IN {
            return Self::from_toml(BUILT_IN_TEXT, BUILT_IN);
        }
        Self::load_from(name, &protocols_folder()?)
    }

    /// The file `<name>.json` of a folder.
    ///
    /// # Errors
    /// As [`Protocol::load`].
    pub fn load_from(name: &str, folder: &Path) -> Result<Self, ProtocolError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || name.starts_with('.') || !name.chars().all(allowed) {
            return Err(ProtocolError::Name { name: name.to_owned() });
        }
        let path = folder.join(format!("{name}.json"));
        let text = read_bounded(&path, name)?;
        let file = path.display().to_string();
        let protocol = Self::from_json(&text, &file)?;
        if protocol.name != name {
            let problem = format!("is {:?}, but the file was asked for as {name:?}", protocol.name);
            return Err(ProtocolError::Invalid { file, field: "name".into(), problem });
        }
        Ok(protocol)
    }

    /// Reads TOML; `file` is named in errors.
    ///
    /// # Errors
    /// [`ProtocolError::Parse`] or [`ProtocolError::Invalid`].
    pub fn from_toml(text: &str, file: &str) -> Result<Self, ProtocolError> {
        let protocol: Self = toml::from_str(text)
            .map_err(|error| ProtocolError::Parse { file: file.to_owned(), problem: error.to_string() })?;
        protocol.validate(file)?;
        Ok(protocol)
    }

    /// Reads JSON; `file` is named in errors.
    ///
    /// # Errors
    /// [`ProtocolError::Parse`] or [`ProtocolError::Invalid`].
    pub fn from_json(text: &str, file: &str) -> Result<Self, ProtocolError> {
        let protocol: Self = serde_json::from_str(text)
            .map_err(|error| ProtocolError::Parse { file: file.to_owned(), problem: error.to_string() })?;
        protocol.validate(file)?;
        Ok(protocol)
    }

    /// SHA-256 over the protocol's content, in hex: equal where every text a model can see is equal.
    ///
    /// # Errors
    /// [`ProtocolError::Parse`] if the protocol cannot be written, which no protocol that was read gives.
    pub fn digest(&self) -> Result<String, ProtocolError> {
        let content = serde_json::to_vec(self)
            .map_err(|error| ProtocolError::Parse { file: self.name.clone(), problem: error.to_string() })?;
        Ok(crate::weights::hex(&Sha256::digest(content)))
    }
}

/// `${LONGWICK_CACHE:-$HOME/.cache/longwick}/protocols`; an empty variable counts as unset.
///
/// # Errors
/// [`ProtocolError::NoCache`].
pub fn protocols_folder() -> Result<PathBuf, ProtocolError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = match variable("LONGWICK_CACHE") {
        Some(cache) => cache,
        None => variable("HOME").ok_or(ProtocolError::NoCache)?.join(".cache").join("longwick"),
    };
    Ok(cache.join("protocols"))
}

fn read_bounded(path: &Path, name: &str) -> Result<String, ProtocolError> {
    let io = |source: std::io::Error| {
        if source.kind() == std::io::ErrorKind::NotFound {
            ProtocolError::NotFound { name: name.to_owned(), path: path.to_owned() }
        } else {
            ProtocolError::Io { path: path.to_owned(), source }
        }
    };
    let bytes = std::fs::metadata(path).map_err(io)?.len();
    if bytes > MAX_FILE_BYTES {
        return Err(ProtocolError::TooLarge { path: path.to_owned(), bytes });
    }
    std::fs::read_to_string(path).map_err(io)
}
