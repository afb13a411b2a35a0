//! [`RunStore::recovered`]: how many outputs broke their format.

use super::{RunStore, StoreError};
use crate::chat::harmony::Recovery;
use std::collections::BTreeMap;

impl RunStore {
    /// How many outputs broke their format and were read all the same, by the names of what was recovered; an output
    /// with several is counted under all of them together, each once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn recovered(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        // An extraction has a list for each turn, other results have one; a payload without any has no such field.
        let query = "SELECT results.key, tree.value FROM results, json_tree(results.payload) AS tree \
                     WHERE instr(results.payload, '\"recoveries\"') > 0 AND tree.key = 'recoveries' \
                     AND tree.type = 'array'";
        let lists = self.connection.prepare_cached(query).and_then(|mut query| {
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            query.query_map([], read)?.collect::<rusqlite::Result<Vec<(String, String)>>>()
        });
        let mut counts = BTreeMap::new();
        for (key, list) in self.wrap(lists)? {
            let list: Vec<Recovery> = serde_json::from_str(&list)
                .map_err(|error| self.damaged(format!("recoveries of result {key}"), error))?;
            let mut names: Vec<&str> = list.iter().map(Recovery::name).collect();
            names.sort_unstable();
            names.dedup();
            *counts.entry(names.join(",")).or_insert(0) += 1;
        }
        Ok(counts)
    }
}
