//! A cursor over untrusted bytes: each read is checked against what is left.
use std::{fmt::Display, path::Path};

use super::super::WeightsError;

/// The format's limit for keys; tensor names have a lower one, which writers exceed.
const MAX_NAME_BYTES: u64 = u16::MAX as u64;

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    file: &'a Path,
}

impl<'a> Reader<'a> {
    /// `at` past the end reads as an empty rest.
    pub(super) fn new(bytes: &'a [u8], at: usize, file: &'a Path) -> Self {
        Self { bytes, at, file }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn file(&self) -> &'a Path {
        self.file
    }

    pub(super) fn remaining(&self) -> u64 {
        self.bytes.len().saturating_sub(self.at) as u64
    }

    /// The next `len` bytes. `field` is formatted only when they are not there.
    pub(super) fn take(&mut self, len: u64, field: &dyn Display) -> Result<&'a [u8], WeightsError> {
        let taken = usize::try_from(len)
            .ok()
            .and_then(|len| self.at.checked_add(len))
            .and_then(|end| self.bytes.get(self.at..end));
        match taken {
            Some(taken) => {
                self.at += taken.len();
                Ok(taken)
            }
            None => Err(WeightsError::Truncated {
                file: self.file.into(),
                field: field.to_string(),
                offset: self.at as u64,
                needed: len,
                available: self.remaining(),
            }),
        }
    }

    pub(super) fn array<const N: usize>(&mut self, field: &dyn Display) -> Result<[u8; N], WeightsError> {
        let taken = self.take(N as u64, field)?;
        let mut array = [0; N];
        array.copy_from_slice(taken);
        Ok(array)
    }

    pub(super) fn u32(&mut self, field: &dyn Display) -> Result<u32, WeightsError> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, field: &dyn Display) -> Result<u64, WeightsError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// A string with its 64-bit length in front.
    pub(super) fn string(&mut self, field: &dyn Display) -> Result<&'a str, WeightsError> {
        let len = self.u64(&format_args!("length of {field}"))?;
        self.text(len, field)
    }

    /// As [`Self::string`], but bounded: names are repeated in error messages and kept in memory.
    pub(super) fn name(&mut self, field: &dyn Display) -> Result<&'a str, WeightsError> {
        let length = self.u64(&format_args!("length of {field}"))?;
        if length > MAX_NAME_BYTES {
            return Err(WeightsError::NameLength {
                file: self.file.into(),
                field: field.to_string(),
                length,
                limit: MAX_NAME_BYTES,
            });
        }
        self.text(length, field)
    }

    fn text(&mut self, len: u64, field: &dyn Display) -> Result<&'a str, WeightsError> {
        let offset = self.at as u64;
        let bytes = self.take(len, field)?;
        std::str::from_utf8(bytes).map_err(|_| WeightsError::Utf8 {
            file: self.file.into(),
            field: field.to_string(),
            offset,
        })
    }

    /// A count of items that take at least `least_bytes` each.
    pub(super) fn count(&mut self, least_bytes: u64, field: &dyn Display) -> Result<u64, WeightsError> {
        let count = self.u64(field)?;
        self.check_count(count, least_bytes, field)?;
        Ok(count)
    }

    pub(super) fn check_count(
        &self,
        count: u64,
        least_bytes: u64,
        field: &dyn Display,
    ) -> Result<(), WeightsError> {
        let limit = self.remaining() / least_bytes;
        if count <= limit {
            return Ok(());
        }
        Err(WeightsError::Count { file: self.file.into(), field: field.to_string(), count, limit })
    }
}
