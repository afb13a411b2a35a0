//! Reading a file, its checksum along the way.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::header::Header;
use super::writer::{MAGIC, VERSION};
use super::{KvFileError, KvIdentity};
use crate::kv::KvPlan;

const SUM_BYTES: u64 = 32;

/// Longest header: far more than the runs of a million tokens take.
const MOST_HEADER_BYTES: u32 = 1 << 26;

/// A file whose header has been checked; pages and states follow in its order.
pub(super) struct Reader {
    file: PathBuf,
    input: BufReader<File>,
    hasher: Sha256,
    pub header: Header,
    /// Token ids in the file.
    pub tokens: Vec<u32>,
}

impl Reader {
    /// Opens a file and checks its header against `identity` and `plan`, and its length.
    ///
    /// # Errors
    /// [`KvFileError`]; a checksum is compared at the end only.
    pub fn open(file: &Path, identity: &KvIdentity, plan: &KvPlan) -> Result<Self, KvFileError> {
        let opened = File::open(file).map_err(KvFileError::io(file, "open"))?;
        let metadata = opened.metadata().map_err(KvFileError::io(file, "read"))?;
        if !metadata.is_file() {
            return Err(KvFileError::format(file, "file", "a regular file", "something else"));
        }
        let length = metadata.len();
        let mut source =
            Source { file, input: BufReader::with_capacity(1 << 20, opened), hasher: Sha256::new() };
        let mut start = [0; 16];
        source.read(&mut start)?;
        if start[..8] != *MAGIC {
            return Err(KvFileError::format(file, "first 8 bytes", "LWICK-KV", "others"));
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| start[at + i]));
        if word(8) != VERSION {
            return Err(KvFileError::format(file, "version", VERSION, word(8)));
        }
        let header_bytes = word(12);
        if header_bytes > MOST_HEADER_BYTES || u64::from(header_bytes) > length {
            let most = length.min(u64::from(MOST_HEADER_BYTES));
            return Err(KvFileError::format(file, "header bytes", format!("at most {most}"), header_bytes));
        }
        let mut text = vec![0; header_bytes as usize];
        source.read(&mut text)?;
        let header: Header = serde_json::from_slice(&text)
            .map_err(|error| KvFileError::format(file, "header", "the fields of this version", error))?;
        header.check(file, identity, plan)?;
        let expected = 16 + u64::from(header_bytes) + header.payload_bytes(plan) + SUM_BYTES;
        if expected != length {
            return Err(KvFileError::format(
                file,
                "length",
                format!("{expected} bytes"),
                format!("{length} bytes"),
            ));
        }
        let mut tokens = vec![0; header.tokens_in_file() * 4];
        source.read(&mut tokens)?;
        let tokens = tokens.chunks_exact(4).map(|id| u32::from_le_bytes(std::array::from_fn(|i| id[i])));
        let tokens = tokens.collect();
        let Source { input, hasher, .. } = source;
        Ok(Self { file: file.to_owned(), input, hasher, header, tokens })
    }

    /// The file's path.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The next `bytes.len()` bytes.
    ///
    /// # Errors
    /// [`KvFileError::Io`].
    pub fn read(&mut self, bytes: &mut [u8]) -> Result<(), KvFileError> {
        self.input.read_exact(bytes).map_err(KvFileError::io(&self.file, "read"))?;
        self.hasher.update(bytes);
        Ok(())
    }

    /// Compares the checksum, after all else was read.
    ///
    /// # Errors
    /// [`KvFileError::Checksum`].
    pub fn finish(mut self) -> Result<(), KvFileError> {
        let mut expected = [0; SUM_BYTES as usize];
        self.input.read_exact(&mut expected).map_err(KvFileError::io(&self.file, "read"))?;
        let found = self.hasher.finalize();
        if found[..] != expected {
            let [expected, found] = [crate::weights::hex(&expected), crate::weights::hex(&found)];
            return Err(KvFileError::Checksum { file: self.file, expected, found });
        }
        Ok(())
    }
}

/// What is read before the header is known.
struct Source<'a> {
    file: &'a Path,
    input: BufReader<File>,
    hasher: Sha256,
}

impl Source<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), KvFileError> {
        match self.input.read_exact(bytes) {
            Ok(()) => {
                self.hasher.update(&*bytes);
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                let expected = format!("{} more bytes of its beginning", bytes.len());
                Err(KvFileError::format(self.file, "length", expected, "its end"))
            }
            Err(error) => Err(KvFileError::io(self.file, "read")(error)),
        }
    }
}
