//! Writing a file so that it is there whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::KvFileError;
use super::header::Header;

pub(super) const MAGIC: &[u8; 8] = b"LWICK-KV";
pub(super) const VERSION: u32 = 1;

/// A file in the making: a sibling that takes the name once it is complete, and goes away otherwise.
pub(super) struct Writer {
    file: PathBuf,
    part: PathBuf,
    out: Option<BufWriter<File>>,
    hasher: Sha256,
    bytes: u64,
}

impl Writer {
    /// Begins `file` with its header and tokens.
    ///
    /// # Errors
    /// [`KvFileError::Io`].
    pub fn create(file: &Path, header: &Header, tokens: &[u32]) -> Result<Self, KvFileError> {
        let mut name = file.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = file.with_file_name(name);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        // It holds prompts.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let out = options.open(&part).map_err(KvFileError::io(&part, "create"))?;
        let out = Some(BufWriter::with_capacity(1 << 20, out));
        let mut writer = Self { file: file.to_owned(), part, out, hasher: Sha256::new(), bytes: 0 };
        let header =
            serde_json::to_vec(header).map_err(|error| KvFileError::format(file, "header", "JSON", error))?;
        writer.write(MAGIC)?;
        writer.write(&VERSION.to_le_bytes())?;
        writer.write(&(header.len() as u32).to_le_bytes())?;
        writer.write(&header)?;
        let tokens: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        writer.write(&tokens)?;
        Ok(writer)
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`KvFileError::Io`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), KvFileError> {
        self.hasher.update(bytes);
        self.append(bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), KvFileError> {
        self.bytes += bytes.len() as u64;
        let Some(out) = &mut self.out else { return Ok(()) };
        out.write_all(bytes).map_err(KvFileError::io(&self.part, "write"))
    }

    /// Appends the checksum and gives the file its name; returns its bytes. With `durable`, it outlives a power cut.
    ///
    /// # Errors
    /// [`KvFileError::Io`]; the file is then as it was before.
    pub fn finish(mut self, durable: bool) -> Result<u64, KvFileError> {
        let sum = self.hasher.clone().finalize();
        self.append(&sum)?;
        if let Some(out) = self.out.take() {
            let written = out.into_inner().map_err(|error| error.into_error());
            let file = written.map_err(KvFileError::io(&self.part, "write"))?;
            if durable {
                file.sync_all().map_err(KvFileError::io(&self.part, "write"))?;
            }
        }
        std::fs::rename(&self.part, &self.file).map_err(KvFileError::io(&self.file, "write"))?;
        Ok(self.bytes)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Gone already where the file was finished.
        let _ = std::fs::remove_file(&self.part);
    }
}
