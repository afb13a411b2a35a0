//! The tensors of an opened model, by canonical name.
use std::{collections::HashMap, path::Path};

use super::{WeightsError, dtype::TensorInfo};

#[derive(Default)]
pub(super) struct TensorTable {
    /// In file order.
    pub(super) entries: Vec<TableEntry>,
    by_name: HashMap<String, usize>,
    /// Prefix of a part that is left out, and its tensors.
    pub(super) skipped: Vec<(String, usize)>,
}

pub(super) struct TableEntry {
    pub(super) canonical: String,
    /// Index of the file.
    pub(super) file: usize,
    pub(super) info: TensorInfo,
}

impl TensorTable {
    pub(super) fn add(
        &mut self,
        canonical: String,
        file: usize,
        path: &Path,
        info: TensorInfo,
    ) -> Result<(), WeightsError> {
        let next = self.entries.len();
        if let Some(previous) = self.by_name.insert(canonical.clone(), next) {
            return Err(WeightsError::NameClash {
                file: path.into(),
                first: self.entries[previous].info.name.clone(),
                second: info.name,
                canonical,
            });
        }
        self.entries.push(TableEntry { canonical, file, info });
        Ok(())
    }

    pub(super) fn skip(&mut self, prefix: &str) {
        match self.skipped.iter_mut().find(|(known, _)| known == prefix) {
            Some((_, tensors)) => *tensors += 1,
            None => self.skipped.push((prefix.into(), 1)),
        }
    }

    pub(super) fn find(&self, canonical: &str) -> Option<&TableEntry> {
        self.by_name.get(canonical).map(|&at| &self.entries[at])
    }
}
