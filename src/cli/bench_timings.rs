//! Measured attention kernels beside the least time a card needs.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::CliError;
use super::columns::align;
use crate::ops::KvDtype;
use crate::ops::roofline::{AttentionWork, Card};

/// A row of `time_kernels` or `time_sdpa.py`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Timing {
    program: String,
    /// `prefill_chunk`, `decode` or `branches`.
    phase: String,
    cache: KvDtype,
    q_heads: usize,
    kv_heads: usize,
    head_dim: usize,
    context: usize,
    /// Query tokens of each sequence, at the context's end.
    queries: usize,
    branches: usize,
    milliseconds: f64,
}

/// A timing and its floor.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    timing: Timing,
    floor_milliseconds: f64,
    bound: &'static str,
}

impl Timing {
    fn beside(self, card: &Card) -> Row {
        let work = AttentionWork {
            q_heads: self.q_heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            window: None,
            activation_bytes: 2,
            cache_bytes: self.cache.element_bytes(),
            scale_bytes: self.cache.scale_bytes(),
        };
        let cost = match self.branches {
            1 => work.prefill_chunk(self.context.saturating_sub(self.queries), self.context),
            branches => work.decode(self.context, branches),
        };
        let (seconds, bound) = cost.floor(card);
        Row { timing: self, floor_milliseconds: seconds * 1e3, bound: bound.name() }
    }
}

/// Reads files of rows and prints them as a table, or as JSON.
///
/// # Errors
/// For a file that cannot be read, or a line that is no row; it names both.
pub(super) fn print(files: &[PathBuf], card: &Card, json: bool) -> Result<(), CliError> {
    let mut rows = Vec::new();
    for file in files {
        rows.extend(read(file)?.into_iter().map(|timing| timing.beside(card)));
    }
    if json {
        out_line!("{:#}", serde_json::json!({ "card": card, "rows": rows }))?;
        return Ok(());
    }
    let header = [
        "program",
        "phase",
        "cache",
        "head size",
        "context",
        "queries",
        "branches",
        "ms",
        "floor ms",
        "times the floor",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for Row { timing, floor_milliseconds, .. } in &rows {
        lines.push(vec![
            timing.program.clone(),
            timing.phase.clone(),
            timing.cache.to_string(),
            timing.head_dim.to_string(),
            timing.context.to_string(),
            timing.queries.to_string(),
            timing.branches.to_string(),
            format!("{:.4}", timing.milliseconds),
            format!("{floor_milliseconds:.4}"),
            format!("{:.2}", timing.milliseconds / floor_milliseconds),
        ]);
    }
    out_line!("floors of {}\n\n{}", card.name, align(&lines, 3))?;
    Ok(())
}

fn read(file: &Path) -> Result<Vec<Timing>, CliError> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
    if lines.peek().is_none() {
        return Err(format!("{}: no timings", file.display()).into());
    }
    lines
        .map(|(index, line)| {
            let row = serde_json::from_str(line);
            row.map_err(|error| format!("{}: line {}: {error}", file.display(), index + 1).into())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"program": "longwick", "phase": "decode", "cache": "bf16", "q_heads": 32, "kv_heads": 4,
        "head_dim": 128, "context": 100000, "queries": 1, "branches": 1, "milliseconds": 0.5}"#;

    #[test]
    fn a_timing_stands_beside_its_floor() {
        let timing: Timing = serde_json::from_str(LINE).unwrap();
        let row = timing.clone().beside(Card::named("h200").unwrap());
        // 100,000 tokens of 4 heads of 128, keys and values in bf16, at 4.8 TB/s.
        assert!((row.floor_milliseconds - 100_000.0 * 2_048.0 / 4.8e9).abs() < 1e-4, "{row:?}");
        assert_eq!(row.bound, "memory");
        let fp8 = Timing { cache: KvDtype::Fp8, ..timing.clone() }.beside(Card::named("h200").unwrap());
        // 128 bytes and a scale of four in place of 256.
        assert!((fp8.floor_milliseconds / row.floor_milliseconds - 132.0 / 256.0).abs() < 1e-3, "{fp8:?}");
        let branches = Timing { branches: 8, ..timing }.beside(Card::named("h200").unwrap());
        assert!(branches.floor_milliseconds < 1.01 * row.floor_milliseconds, "the context is read once");
    }

    #[test]
    fn a_bad_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rows.jsonl");
        std::fs::write(&file, format!("{}\n{{\"program\": 1}}\n", LINE.replace('\n', " "))).unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("rows.jsonl: line 2"), "{error}");
        std::fs::write(&file, "\n").unwrap();
        let error = read(&file).unwrap_err().to_string();
        assert!(error.contains("rows.jsonl: no timings"), "{error}");
    }
}
