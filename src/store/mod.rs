//! [`RunStore`]: one run's SQLite database, and the files exported from it.
//!
//! The database lies at `runs/<name>/run.sqlite`. Each result is durable (WAL, `synchronous = FULL`) before the next
//! begins. Exports ([`RunStore::export`]) are pure functions of the database and hold no clock values; timings and the
//! prompts that engines were given ([`RunStore::prefill`]) stay in the database. Where an output broke its format and how
//! it was read is part of its result, exported to `details.jsonl` and counted by [`RunStore::recovered`].
//!
//! # Tables
//! `meta` (format, date, plan), `instances` and `cells` (what stands where; made anew by each session), `results` (by
//! key), `loads` (a model's load and its counters), `prompts` (token ids, most of them as what they add to another).

mod error;
mod export;
mod least;
mod recovered;
mod rows;
mod run_store;
mod schema;
mod tables;
#[cfg(test)]
mod tests;

pub use error::StoreError;
pub use export::{Exported, SettingSummary};
pub use least::{LeastPrefill, PrefillCount};
pub use run_store::RunStore;
