//! Checks a Parquet file's declared sizes before the parquet crate allocates by them.
//!
//! The crate reserves memory by counts it has read (children of a schema node, a page's size, the
//! length of a string in a page header), and a reservation that fails ends the process. So the
//! footer and every page header of the columns that are read are walked first.
//!
//! Source: the Parquet format specification (apache/parquet-format, parquet.thrift).
use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
};

use parquet::{
    basic::Compression,
    file::metadata::{ColumnChunkMetaData, ParquetMetaData},
};

use super::thrift::{self, Visit, WalkError};

const MAX_FOOTER_BYTES: u64 = 16 << 20;
const MAX_SCHEMA_ELEMENTS: usize = 1000;
const MAX_SCHEMA_DEPTH: usize = 24;
/// Bytes of one page, uncompressed.
const MAX_PAGE_BYTES: i64 = 256 << 20;
/// Bytes of one compressed page of the codecs whose decompression the crate does not bound.
const MAX_UNBOUNDED_PAGE_BYTES: i64 = 1 << 20;
/// Values of one column in one row group, which is what one row can hold at most.
const MAX_VALUES: i64 = 16 << 20;
/// Bytes read at first, and at most, to find the end of a page header.
const HEADER_WINDOW: u64 = 64 << 10;
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// Checks the magic numbers, the footer's length, and each length and count inside the footer.
pub(super) fn check_footer(file: &mut File) -> Result<(), String> {
    let size = file.seek(SeekFrom::End(0)).map_err(io_message)?;
    if size < 12 {
        return Err(format!("{size} bytes are too few for a Parquet file"));
    }
    let tail = read_at(file, size - 8, 8)?;
    if tail[4..] != *b"PAR1" {
        return Err("the file does not end with PAR1: cut off, or encrypted".to_owned());
    }
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if length > size - 12 || length > MAX_FOOTER_BYTES {
        let limit = MAX_FOOTER_BYTES.min(size - 12);
        return Err(format!("the footer's length is {length}, the limit is {limit}"));
    }
    let footer = read_at(file, size - 8 - length, length)?;
    let mut schema = SchemaShape::default();
    thrift::walk(&footer, &mut schema).map_err(|error| footer_message(&error))?;
    schema.check()
}

/// Checks counts, offsets and page headers of the columns that `is_read` selects by root name.
pub(super) fn check_columns(
    file: &mut File,
    metadata: &ParquetMetaData,
    is_read: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    let size = file.seek(SeekFrom::End(0)).map_err(io_message)?;
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        for column in row_group.columns() {
            let path = column.column_path();
            if !path.parts().first().is_some_and(|root| is_read(root)) {
                continue;
            }
            let place = format!("row group {group}, column {}", path.string());
            let (rows, values) = (row_group.num_rows(), column.num_values());
            // A row has at least one value in each column, if only a null.
            if rows < 0 || values < rows || values > MAX_VALUES {
                return Err(format!("{place}: {values} values for {rows} rows, the limit is {MAX_VALUES}"));
            }
            check_chunk(file, size, column).map_err(|message| format!("{place}: {message}"))?;
        }
    }
    Ok(())
}

fn check_chunk(file: &mut File, size: u64, column: &ColumnChunkMetaData) -> Result<(), String> {
    let offset = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let (Ok(start), Ok(length)) = (u64::try_from(offset), u64::try_from(column.compressed_size())) else {
        return Err("a negative offset or size".to_owned());
    };
    let Some(end) = start.checked_add(length).filter(|end| *end <= size) else {
        return Err(format!("{length} bytes at offset {start} in a file of {size}"));
    };
    let mut position = start;
    while position < end {
        let (header, header_bytes) = read_header(file, position, end - position)?;
        header.check(column.compression())?;
        let page = header_bytes + u64::try_from(header.compressed).unwrap_or(u64::MAX);
        if page > end - position {
            return Err(format!("a page of {page} bytes with {} left", end - position));
        }
        position += page;
    }
    Ok(())
}

/// Reads the page header at `position`; returns it and how many bytes it fills.
fn read_header(file: &mut File, position: u64, left: u64) -> Result<(PageHeader, u64), String> {
    let mut window = HEADER_WINDOW;
    loop {
        let bytes = read_at(file, position, window.min(left))?;
        let mut header = PageHeader { compressed: -1, uncompressed: -1, num_values: 0 };
        match thrift::walk(&bytes, &mut header) {
            Ok(used) => return Ok((header, used as u64)),
            Err(WalkError::Truncated) if window < left.min(MAX_HEADER_BYTES) => window *= 8,
            Err(WalkError::Truncated) => return Err("a page header is cut off".to_owned()),
            Err(WalkError::Damaged(what)) => return Err(format!("a page header holds {what}")),
        }
    }
}

/// The sizes in a page header: fields 2 and 3, and field 1 of the headers by page type.
struct PageHeader {
    compressed: i64,
    uncompressed: i64,
    num_values: i64,
}

impl Visit for PageHeader {
    fn begin_struct(&mut self, _path: &[i16]) {}

    fn integer(&mut self, path: &[i16], value: i64) {
        match path {
            [2] => self.uncompressed = value,
            [3] => self.compressed = value,
            [5 | 7 | 8, 1] => self.num_values = value,
            _ => {}
        }
    }
}

impl PageHeader {
    fn check(&self, compression: Compression) -> Result<(), String> {
        let in_range = (0..=MAX_PAGE_BYTES).contains(&self.uncompressed)
            && (0..=MAX_PAGE_BYTES).contains(&self.compressed);
        if !in_range {
            return Err(format!(
                "a page of {} bytes ({} compressed), the limit is {MAX_PAGE_BYTES}",
                self.uncompressed, self.compressed
            ));
        }
        if !(0..=MAX_VALUES).contains(&self.num_values) {
            return Err(format!("a page of {} values, the limit is {MAX_VALUES}", self.num_values));
        }
        let is_unbounded = matches!(compression, Compression::GZIP(_) | Compression::LZ4);
        if is_unbounded && self.compressed > MAX_UNBOUNDED_PAGE_BYTES {
            return Err(format!(
                "a {compression} page of {} bytes, the limit is {MAX_UNBOUNDED_PAGE_BYTES}; write \
                 the file with zstd or snappy",
                self.compressed
            ));
        }
        Ok(())
    }
}

/// Children of each schema element, in the file's depth-first order.
#[derive(Default)]
struct SchemaShape(Vec<i64>);

impl Visit for SchemaShape {
    fn begin_struct(&mut self, path: &[i16]) {
        // FileMetaData.schema is field 2.
        if path == [2] {
            self.0.push(0);
        }
    }

    fn integer(&mut self, path: &[i16], value: i64) {
        // SchemaElement.num_children is field 5.
        if let ([2, 5], Some(children)) = (path, self.0.last_mut()) {
            *children = value;
        }
    }
}

impl SchemaShape {
    /// The crate descends by these counts, and reserves memory by each.
    fn check(&self) -> Result<(), String> {
        let count = self.0.len();
        if count > MAX_SCHEMA_ELEMENTS {
            return Err(format!("{count} schema elements, the limit is {MAX_SCHEMA_ELEMENTS}"));
        }
        let mut open: Vec<i64> = Vec::new();
        for (index, children) in self.0.iter().enumerate() {
            if *children < 0 || *children > count as i64 {
                return Err(format!("schema element {index} of {count} has {children} children"));
            }
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            if *children > 0 {
                open.push(*children);
            }
            while open.last() == Some(&0) {
                open.pop();
            }
            if open.len() > MAX_SCHEMA_DEPTH {
                return Err(format!("the schema nests deeper than {MAX_SCHEMA_DEPTH} levels"));
            }
        }
        Ok(())
    }
}

fn read_at(file: &mut File, offset: u64, length: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset)).map_err(io_message)?;
    file.take(length).read_to_end(&mut bytes).map_err(io_message)?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err("the file shrank while it was read".to_owned()),
    }
}

fn io_message(error: io::Error) -> String {
    error.to_string()
}

fn footer_message(error: &WalkError) -> String {
    match error {
        WalkError::Truncated => "the footer is cut off".to_owned(),
        WalkError::Damaged(what) => format!("the footer holds {what}"),
    }
}
