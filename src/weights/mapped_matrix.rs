//! [`MappedMatrix`]: a matrix that stays in its file.
use std::{ops::Range, path::PathBuf, sync::Arc};

use memmap2::Mmap;

use super::{Weights, WeightsError, dtype::WeightDtype};

/// A matrix of which few rows are read at a time, so that it is left in the mapped file: the system keeps the pages
/// that are used, and nothing is copied or packed beforehand. Clones share the map.
#[derive(Clone)]
pub struct MappedMatrix {
    /// `None` for a matrix that was only measured.
    bytes: Option<Arc<Mmap>>,
    file: PathBuf,
    name: String,
    dtype: WeightDtype,
    rows: usize,
    /// Elements from one row to the next.
    stride: usize,
    /// The columns that this value shows.
    columns: Range<usize>,
    /// Where the first row begins in the file.
    start: usize,
}

impl Weights {
    /// As [`Self::require`], for a matrix that is to stay in its file.
    ///
    /// # Errors
    /// As [`Self::require`].
    pub fn mapped_matrix(&self, name: &str, shape: [usize; 2]) -> Result<MappedMatrix, WeightsError> {
        let (entry, view) = self.required_entry(name, &shape)?;
        let file = &self.files[entry.file];
        let [rows, stride] = shape;
        Ok(MappedMatrix {
            bytes: Some(file.bytes.clone()),
            file: file.path.clone(),
            name: view.name.to_owned(),
            dtype: view.dtype,
            rows,
            stride,
            columns: 0..stride,
            start: entry.info.range.start,
        })
    }
}

impl MappedMatrix {
    /// A matrix of its own file, which holds nothing else.
    #[cfg(test)]
    pub(crate) fn of_bytes(bytes: &[u8], dtype: WeightDtype, [rows, stride]: [usize; 2]) -> Self {
        let mut map = memmap2::MmapMut::map_anon(bytes.len()).unwrap();
        map.copy_from_slice(bytes);
        let bytes = Some(Arc::new(map.make_read_only().unwrap()));
        let (file, name) = (PathBuf::from("matrix"), "matrix".to_owned());
        Self { bytes, file, name, dtype, rows, stride, columns: 0..stride, start: 0 }
    }

    /// A matrix of which the size alone is known, for planning: it has no rows to read.
    pub(crate) fn measured(name: &str, dtype: WeightDtype, [rows, stride]: [usize; 2]) -> Self {
        let (name, columns) = (name.to_owned(), 0..stride);
        Self { bytes: None, file: PathBuf::new(), name, dtype, rows, stride, columns, start: 0 }
    }

    /// The name on disk.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Element storage.
    pub fn dtype(&self) -> WeightDtype {
        self.dtype
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Columns shown.
    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    /// Bytes that all shown elements take in the file.
    pub fn file_bytes(&self) -> usize {
        self.rows * self.bytes_of(self.columns.len())
    }

    /// The same matrix, of which only `columns` (counted from the first one shown) are shown.
    ///
    /// # Errors
    /// [`WeightsError::PartialBlock`] where a quantised block would be cut, [`WeightsError::Shape`] for columns that are
    /// not there.
    pub fn narrow(&self, columns: Range<usize>) -> Result<Self, WeightsError> {
        if columns.start > columns.end || columns.end > self.columns.len() {
            return Err(WeightsError::Shape {
                file: self.file.clone(),
                tensor: self.name.clone(),
                expected: vec![self.rows, columns.end],
                found: vec![self.rows, self.columns.len()],
            });
        }
        let columns = self.columns.start + columns.start..self.columns.start + columns.end;
        let block = self.dtype.block_elements();
        if let Some(cut) = [columns.start, columns.end].into_iter().find(|end| !end.is_multiple_of(block)) {
            return Err(WeightsError::PartialBlock {
                file: self.file.clone(),
                tensor: self.name.clone(),
                dtype: self.dtype.name().into(),
                row: cut as u64,
                block: block as u64,
            });
        }
        Ok(Self { columns, ..self.clone() })
    }

    /// The raw little-endian bytes of a row's shown elements; `None` past the last row, and where none was read.
    pub fn row(&self, row: usize) -> Option<&[u8]> {
        if row >= self.rows {
            return None;
        }
        let start = self.start + row * self.bytes_of(self.stride) + self.bytes_of(self.columns.start);
        self.bytes.as_ref()?.get(start..start + self.bytes_of(self.columns.len()))
    }

    /// Bytes of whole blocks.
    fn bytes_of(&self, elements: usize) -> usize {
        elements / self.dtype.block_elements() * self.dtype.block_bytes()
    }
}
