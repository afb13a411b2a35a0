//! Splits a text file into records: lines of JSONL, elements of an array, or one document.
use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use serde_json::Value;

use super::{
    ImportError, Location,
    json::{self, Fault, FaultKind},
    parquet_rows,
};

/// Bytes of one JSONL line.
const MAX_LINE_BYTES: u64 = 512 << 20;
/// Bytes of a file that is one JSON document.
const MAX_DOCUMENT_BYTES: u64 = 2 << 30;

/// Receives each record.
pub(super) type RecordSink<'s> = &'s mut dyn FnMut(Location, Value) -> Result<(), ImportError>;

/// First bytes that tell a binary file, with what it is.
const FOREIGN_MAGIC: [(&[u8], &str); 6] = [
    (b"\x1f\x8b", "gzip-compressed data (decompress it first)"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data (decompress it first)"),
    (b"PK\x03\x04", "a ZIP archive (unpack it first)"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\xff\xfe", "UTF-16 text (convert it to UTF-8 first)"),
    (b"\xfe\xff", "UTF-16 text (convert it to UTF-8 first)"),
];

/// Reads a file record by record, whatever of the supported containers it is.
pub(super) fn read(path: &Path, sink: RecordSink<'_>) -> Result<(), ImportError> {
    match is_parquet(path)? {
        true => parquet_rows::read_rows(path, sink),
        false => read_text(path, sink),
    }
}

/// Whether the file begins as Parquet files do.
fn is_parquet(path: &Path) -> Result<bool, ImportError> {
    let mut magic = Vec::new();
    let file = File::open(path).map_err(|source| io_error(path, source))?;
    file.take(4).read_to_end(&mut magic).map_err(|source| io_error(path, source))?;
    Ok(magic == b"PAR1")
}

/// Reads a JSON or JSONL file record by record.
fn read_text(path: &Path, sink: RecordSink<'_>) -> Result<(), ImportError> {
    let file = File::open(path).map_err(|source| io_error(path, source))?;
    let mut lines = Lines { path, reader: BufReader::with_capacity(1 << 18, file), line: 0 };
    lines.check_magic()?;
    let Some(first) = lines.next_filled()? else {
        return Err(ImportError::Empty { path: path.to_owned() });
    };
    let lines_before = lines.line - 1;
    match first.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => {
            let bytes = lines.rest_after(first)?;
            read_array(path, &bytes, lines_before, sink)
        }
        Some(b'{') => match json::parse(&first) {
            Ok(record) => {
                sink(Location::Line(lines.line), record)?;
                lines.read_records(sink)
            }
            // A first line that ends inside an object is the beginning of a document over many lines.
            Err(Fault { kind: FaultKind::Truncated(_), .. }) => {
                let bytes = lines.rest_after(first)?;
                let parsed = json::parse(&bytes);
                let record = parsed.map_err(|fault| json_error(path, lines_before, fault))?;
                sink(Location::Document, record)
            }
            Err(fault) => Err(json_error(path, lines_before, fault)),
        },
        _ => Err(ImportError::UnknownFormat {
            path: path.to_owned(),
            location: Location::Line(lines.line),
            found: format!("text that begins {:?}", beginning(&first)),
        }),
    }
}

/// Reads the elements of a top-level array.
fn read_array(
    path: &Path,
    bytes: &[u8],
    lines_before: usize,
    sink: RecordSink<'_>,
) -> Result<(), ImportError> {
    let mut stopped = None;
    let parsed = json::parse_array(bytes, &mut |index, value| {
        stopped = sink(Location::Element(index), value).err();
        stopped.is_none()
    });
    match (stopped, parsed) {
        (Some(error), _) => Err(error),
        (None, Err(fault)) => Err(json_error(path, lines_before, fault)),
        (None, Ok(())) => Ok(()),
    }
}

struct Lines<'p> {
    path: &'p Path,
    reader: BufReader<File>,
    /// Number of the line read last, from 1.
    line: usize,
}

impl Lines<'_> {
    fn check_magic(&mut self) -> Result<(), ImportError> {
        let head = self.reader.fill_buf().map_err(|source| io_error(self.path, source))?;
        for (magic, found) in FOREIGN_MAGIC {
            if head.starts_with(magic) {
                return Err(ImportError::ForeignFormat { path: self.path.to_owned(), found });
            }
        }
        if head.starts_with(b"\xef\xbb\xbf") {
            self.reader.consume(3);
        }
        Ok(())
    }

    /// The next line that is not blank; `None` at the end of the file.
    fn next_filled(&mut self) -> Result<Option<Vec<u8>>, ImportError> {
        loop {
            let mut line = Vec::new();
            let mut limited = self.reader.by_ref().take(MAX_LINE_BYTES + 1);
            let read = limited.read_until(b'\n', &mut line);
            let size = read.map_err(|source| io_error(self.path, source))? as u64;
            if size == 0 {
                return Ok(None);
            }
            self.line += 1;
            if size > MAX_LINE_BYTES {
                let what = format!("line {}, in bytes,", self.line);
                return Err(self.too_large(what, size, MAX_LINE_BYTES));
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(line));
            }
        }
    }

    fn read_records(&mut self, sink: RecordSink<'_>) -> Result<(), ImportError> {
        while let Some(line) = self.next_filled()? {
            let parsed = json::parse(&line);
            let record = parsed.map_err(|fault| json_error(self.path, self.line - 1, fault))?;
            sink(Location::Line(self.line), record)?;
        }
        Ok(())
    }

    /// `first` and all that follows it.
    fn rest_after(&mut self, first: Vec<u8>) -> Result<Vec<u8>, ImportError> {
        let mut bytes = first;
        let limit = MAX_DOCUMENT_BYTES - bytes.len() as u64;
        let mut limited = self.reader.by_ref().take(limit + 1);
        limited.read_to_end(&mut bytes).map_err(|source| io_error(self.path, source))?;
        let size = bytes.len() as u64;
        if size > MAX_DOCUMENT_BYTES {
            let what = "the JSON document, in bytes,".to_owned();
            return Err(self.too_large(what, size, MAX_DOCUMENT_BYTES));
        }
        Ok(bytes)
    }

    fn too_large(&self, what: String, size: u64, limit: u64) -> ImportError {
        ImportError::TooLarge { path: self.path.to_owned(), what, size, limit }
    }
}

/// The first characters of a line, for an error.
fn beginning(line: &[u8]) -> String {
    let head = &line[..line.len().min(160)];
    String::from_utf8_lossy(head).trim().chars().take(40).collect()
}

pub(super) fn io_error(path: &Path, source: std::io::Error) -> ImportError {
    ImportError::Io { path: path.to_owned(), source }
}

/// Places a fault whose lines count from after `lines_before`.
fn json_error(path: &Path, lines_before: usize, fault: Fault) -> ImportError {
    let path = path.to_owned();
    let line = lines_before + fault.line;
    let column = fault.column;
    match fault.kind {
        FaultKind::Truncated(message) | FaultKind::Syntax(message) => {
            ImportError::Json { path, line, column, message }
        }
        FaultKind::DuplicateKey(key) => ImportError::DuplicateKey { path, line, key },
        FaultKind::TooDeep => ImportError::TooDeep { path, line, limit: json::MAX_DEPTH },
        FaultKind::TooManyValues => ImportError::TooLarge {
            path,
            what: format!("the number of JSON values in the record at line {line}"),
            size: json::MAX_VALUES as u64 + 1,
            limit: json::MAX_VALUES as u64,
        },
        FaultKind::Stopped => ImportError::Json { path, line, column, message: "stopped".to_owned() },
    }
}
