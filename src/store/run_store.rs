//! [`RunStore`]: opening the database, and writing to it.

use super::StoreError;
use super::schema::{FORMAT, TABLES};
use crate::compint::runner::{
    Cell, NewResult, PlannedInstance, RecordedPrompt, ResultSink, RunPlan, SinkError,
};
use crate::engine::EngineStats;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, params};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Whole prompts that later ones are compared with.
const BASES: usize = 16;

/// One run's database.
pub struct RunStore {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pool: String,
    /// The last prompts that were kept whole: load, id, tokens.
    bases: VecDeque<(i64, i64, Vec<u32>)>,
}

impl RunStore {
    /// Opens `folder/run.sqlite`, or creates it. No other process can open it meanwhile.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(folder)
            .map_err(|source| StoreError::Folder { path: folder.to_owned(), source })?;
        let path = folder.join("run.sqlite");
        let connection = Connection::open(&path).and_then(|connection| {
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.pragma_update(None, "synchronous", "FULL")?;
            // The lock is taken by the first transaction, so that a second process is refused here and not midway.
            connection.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} COMMIT;"))?;
            Ok(connection)
        });
        let connection = connection.map_err(|source| match source.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::InUse { path: path.clone() }
            }
            _ => StoreError::Database { path: path.clone(), source },
        })?;
        let store = Self { connection, path, pool: String::new(), bases: VecDeque::new() };
        match store.meta("format")? {
            None => store.set_meta("format", FORMAT)?,
            Some(found) if found == FORMAT => {}
            Some(found) => return Err(StoreError::Format { path: store.path, found, expected: FORMAT }),
        }
        Ok(store)
    }

    pub(super) fn meta(&self, name: &str) -> Result<Option<String>, StoreError> {
        let query = "SELECT value FROM meta WHERE name = ?1";
        self.wrap(self.connection.query_row(query, [name], |row| row.get(0)).optional())
    }

    fn set_meta(&self, name: &str, value: &str) -> Result<(), StoreError> {
        let query = "INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)";
        self.wrap(self.connection.execute(query, [name, value]).map(|_| ()))
    }

    pub(super) fn wrap<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|source| StoreError::Database { path: self.path.clone(), source })
    }

    pub(super) fn damaged(&self, what: impl Into<String>, problem: impl std::fmt::Display) -> StoreError {
        StoreError::Damaged { path: self.path.clone(), what: what.into(), problem: problem.to_string() }
    }

    /// How many results there are.
    ///
    /// # Errors
    /// [`StoreError::Database`].
    pub fn num_results(&self) -> Result<u64, StoreError> {
        let count: i64 =
            self.wrap(self.connection.query_row("SELECT count(*) FROM results", [], |row| row.get(0)))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    fn transaction<T>(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let written = self.connection.transaction().and_then(|transaction| {
            let value = write(&transaction)?;
            transaction.commit()?;
            Ok(value)
        });
        self.wrap(written)
    }

    fn write_begin(
        &mut self,
        plan: &RunPlan,
        pool: &str,
        instances: &mut dyn Iterator<Item = PlannedInstance>,
    ) -> Result<(), StoreError> {
        let plan_text = serde_json::to_string(plan).map_err(|error| self.damaged("the plan", error))?;
        let mut unwritable = None;
        let written = self.transaction(|transaction| {
            transaction.execute_batch("DELETE FROM instances; DELETE FROM cells;")?;
            transaction.execute("DELETE FROM results WHERE pool IS NOT NULL AND pool <> ?1", [pool])?;
            let meta = "INSERT OR REPLACE INTO meta (name, value) VALUES ('plan', ?1)";
            transaction.execute(meta, [&plan_text])?;
            let query = "INSERT INTO instances (setting, ordinal, row, sc_text) VALUES (?1, ?2, ?3, ?4)";
            let mut insert = transaction.prepare(query)?;
            for instance in instances {
                match serde_json::to_string(&instance.row) {
                    Ok(row) => {
                        let ordinal = instance.ordinal as i64;
                        insert.execute(params![instance.setting, ordinal, row, instance.sc_text])?;
                    }
                    Err(error) => unwritable = Some(error),
                }
            }
            Ok(())
        });
        match unwritable {
            Some(error) => Err(self.damaged("an instance", error)),
            None => written,
        }
    }

    fn write_result(&mut self, result: &NewResult, prompts: &[RecordedPrompt]) -> Result<(), StoreError> {
        let pool = result.depends_on_pool.then(|| self.pool.clone());
        let mut bases = std::mem::take(&mut self.bases);
        let written = self.transaction(|transaction| {
            for prompt in prompts {
                write_prompt(transaction, prompt, &mut bases)?;
            }
            let query =
                "INSERT OR REPLACE INTO results (key, kind, payload, seconds, pool) VALUES (?1, ?2, ?3, ?4, ?5)";
            transaction.execute(query, params![result.key, result.kind, result.payload, result.seconds, pool])?;
            Ok(())
        });
        self.bases = bases;
        written
    }

    fn write_cells(&mut self, cells: &[Cell]) -> Result<(), StoreError> {
        self.transaction(|transaction| {
            let query =
                "INSERT OR REPLACE INTO cells (setting, ordinal, compactor, role, key) VALUES (?1, ?2, ?3, ?4, ?5)";
            let mut insert = transaction.prepare_cached(query)?;
            for cell in cells {
                let ordinal = cell.ordinal as i64;
                insert.execute(params![cell.setting, ordinal, cell.compactor, cell.role, cell.key])?;
            }
            Ok(())
        })
    }

    fn write_load(&mut self, load: i64, stats: &EngineStats) -> Result<(), StoreError> {
        self.transaction(|transaction| {
            let query = "UPDATE loads SET prefilled = ?2, cached = ?3, generated = ?4, preemptions = ?5, \
                         shared_requests = ?6, steps = ?7 WHERE id = ?1";
            let counts = [
                stats.prefilled_tokens,
                stats.cached_tokens,
                stats.generated_tokens,
                stats.preemptions,
                stats.shared_requests,
                stats.steps,
            ]
            .map(|count| i64::try_from(count).unwrap_or(i64::MAX));
            let [prefilled, cached, generated, preemptions, shared, steps] = counts;
            transaction.execute(query, [load, prefilled, cached, generated, preemptions, shared, steps])?;
            Ok(())
        })
    }
}

/// Writes a prompt, as what it adds to one that was kept whole where they share at least half of it: the prompts of one
/// history differ in little.
fn write_prompt(
    transaction: &Transaction<'_>,
    prompt: &RecordedPrompt,
    bases: &mut VecDeque<(i64, i64, Vec<u32>)>,
) -> rusqlite::Result<()> {
    let shared_with = |tokens: &[u32]| tokens.iter().zip(&prompt.tokens).take_while(|(a, b)| a == b).count();
    let candidates = bases.iter().filter(|(load, ..)| *load == prompt.load);
    let best = candidates.map(|(_, id, tokens)| (shared_with(tokens), *id)).max();
    let best = best.filter(|(shared, _)| *shared > 0 && shared * 2 >= prompt.tokens.len());
    let (shared, base) = best.map_or((0, None), |(shared, id)| (shared, Some(id)));
    let rest: Vec<u8> = prompt.tokens[shared..].iter().flat_map(|token| token.to_le_bytes()).collect();
    let query = "INSERT OR IGNORE INTO prompts (load, request, base, shared, rest, adaptations) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let adaptations: Vec<_> = prompt.adaptations.iter().map(|adaptation| adaptation.name()).collect();
    let inserted = transaction.execute(
        query,
        params![prompt.load, &prompt.request[..], base, shared as i64, rest, adaptations.join(",")],
    )?;
    if base.is_none() && inserted > 0 {
        bases.push_back((prompt.load, transaction.last_insert_rowid(), prompt.tokens.clone()));
        if bases.len() > BASES {
            bases.pop_front();
        }
    }
    Ok(())
}

fn sink_error(error: StoreError) -> SinkError {
    SinkError(Box::new(error))
}

impl ResultSink for RunStore {
    fn fix_date(&mut self, named: Option<&str>, proposed: &str) -> Result<String, SinkError> {
        let kept = self.meta("date").map_err(sink_error)?;
        if let Some(named) = named.filter(|named| kept.as_deref() != Some(*named)) {
            self.set_meta("date", named).map_err(sink_error)?;
            return Ok(named.to_owned());
        }
        match kept {
            Some(date) => Ok(date),
            None => {
                self.set_meta("date", proposed).map_err(sink_error)?;
                Ok(proposed.to_owned())
            }
        }
    }

    fn begin(
        &mut self,
        plan: &RunPlan,
        pool: &str,
        instances: &mut dyn Iterator<Item = PlannedInstance>,
    ) -> Result<(), SinkError> {
        self.pool = pool.to_owned();
        self.write_begin(plan, pool, instances).map_err(sink_error)
    }

    fn get(&self, key: &str) -> Result<Option<String>, SinkError> {
        let found = self.connection.prepare_cached("SELECT payload FROM results WHERE key = ?1");
        let found = found.and_then(|mut query| query.query_row([key], |row| row.get(0)).optional());
        self.wrap(found).map_err(sink_error)
    }

    fn put(&mut self, result: &NewResult, prompts: &[RecordedPrompt]) -> Result<(), SinkError> {
        self.write_result(result, prompts).map_err(sink_error)
    }

    fn link(&mut self, cells: &[Cell]) -> Result<(), SinkError> {
        self.write_cells(cells).map_err(sink_error)
    }

    fn open_load(&mut self, model_digest: &str, block_size: usize) -> Result<i64, SinkError> {
        let block_size = block_size as i64;
        self.transaction(|transaction| {
            let query = "INSERT INTO loads (model, block_size) VALUES (?1, ?2)";
            transaction.execute(query, params![model_digest, block_size])?;
            Ok(transaction.last_insert_rowid())
        })
        .map_err(sink_error)
    }

    fn update_load(&mut self, load: i64, stats: &EngineStats) -> Result<(), SinkError> {
        self.write_load(load, stats).map_err(sink_error)
    }
}
