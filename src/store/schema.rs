//! The database's tables.

/// Changes with the tables.
pub(super) const FORMAT: &str = "2";

pub(super) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS instances (
    setting TEXT NOT NULL, ordinal INTEGER NOT NULL, row TEXT NOT NULL, sc_text TEXT NOT NULL,
    PRIMARY KEY (setting, ordinal)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cells (
    setting TEXT NOT NULL, ordinal INTEGER NOT NULL, compactor TEXT NOT NULL, role TEXT NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (setting, ordinal, compactor, role)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS results (
    key TEXT PRIMARY KEY, kind TEXT NOT NULL, payload TEXT NOT NULL, seconds REAL NOT NULL, pool TEXT);
CREATE TABLE IF NOT EXISTS loads (
    id INTEGER PRIMARY KEY, model TEXT NOT NULL, block_size INTEGER NOT NULL,
    prefilled INTEGER NOT NULL DEFAULT 0, cached INTEGER NOT NULL DEFAULT 0, generated INTEGER NOT NULL DEFAULT 0,
    preemptions INTEGER NOT NULL DEFAULT 0, shared_requests INTEGER NOT NULL DEFAULT 0,
    steps INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS prompts (
    id INTEGER PRIMARY KEY, load INTEGER NOT NULL, request BLOB NOT NULL,
    -- The prompt is the first `shared` tokens of the prompt `base`, then `rest` (u32, little-endian).
    base INTEGER, shared INTEGER NOT NULL, rest BLOB NOT NULL,
    -- How the messages were adapted to the template: names, joined by commas.
    adaptations TEXT NOT NULL,
    UNIQUE (load, request));
";
