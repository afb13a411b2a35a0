//! conpact's `summarize` and the `summary.csv` it writes, byte for byte.

use super::rates::{Count, Tally};
use super::row::ResultRow;
use crate::compint::{Condition, pyjson};
use std::collections::BTreeMap;

/// One line of `summary.csv`.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryRow {
    /// The dataset.
    pub source: String,
    /// The constraints' type, or `all`.
    pub sc_type: String,
    /// How many results, scored or not.
    pub n: usize,
    /// Percent of verdicts that are yes.
    pub retention_rate_pct: Option<f64>,
    /// What the probes gave; `None` where none was asked, and then their columns are absent.
    pub compliance: Option<ComplianceColumns>,
}

/// The probe columns of a [`SummaryRow`].
#[derive(Debug, Clone, PartialEq)]
pub struct ComplianceColumns {
    /// Percent compliant by [`Condition::index`].
    pub rates_pct: [Option<f64>; 4],
    /// See [`Tally::effective_retention_pct`].
    pub effective_retention_pct: Option<f64>,
}

/// Rates for each source over all its results, then for each of its constraint types, both in code point order.
///
/// Equal to conpact's wherever conpact gives a value. Where all probes of a condition are unscored conpact divides
/// `None` and raises; here the effective retention is `None`.
pub fn summarize(results: &[ResultRow]) -> Vec<SummaryRow> {
    let mut sources: BTreeMap<&str, BTreeMap<&str, Vec<&ResultRow>>> = BTreeMap::new();
    for row in results {
        sources.entry(&row.source).or_default().entry(&row.sc_type).or_default().push(row);
    }
    let mut summary = Vec::new();
    for (source, types) in &sources {
        let all: Vec<&ResultRow> = types.values().flatten().copied().collect();
        summary.push(summary_row(source, "all", &all));
        summary.extend(types.iter().map(|(sc_type, rows)| summary_row(source, sc_type, rows)));
    }
    summary
}

fn summary_row(source: &str, sc_type: &str, results: &[&ResultRow]) -> SummaryRow {
    let probed = results.iter().any(|row| row.probes.iter().any(Option::is_some));
    let tally = tally(results);
    SummaryRow {
        source: source.to_owned(),
        sc_type: sc_type.to_owned(),
        n: results.len(),
        retention_rate_pct: tally.retention.rate_pct(),
        compliance: probed.then(|| ComplianceColumns {
            rates_pct: Condition::ALL.map(|condition| tally.compliance_pct(condition)),
            effective_retention_pct: tally.effective_retention_pct(),
        }),
    }
}

fn tally(results: &[&ResultRow]) -> Tally {
    let retention = Count::of(results.iter().map(|row| row.retention));
    Tally {
        retention,
        retention_with_failures: retention,
        compliance: Condition::ALL
            .map(|condition| Count::of(results.iter().map(|row| row.probe(condition)?.compliant))),
    }
}

/// The table as Python's `csv.DictWriter` writes it: `\r\n` at line ends, floats by `repr`, an empty cell for `None`.
///
/// # Errors
/// What the writer says; it writes to memory.
pub fn summary_csv(summary: &[SummaryRow]) -> Result<String, csv::Error> {
    let probed = summary.iter().any(|row| row.compliance.is_some());
    let mut header: Vec<String> = ["source", "sc_type", "n", "retention_rate_pct"].map(str::to_owned).into();
    if probed {
        header.extend(Condition::ALL.map(|condition| format!("{condition}_compliance_pct")));
        header.push("effective_retention_pct".to_owned());
    }
    let lines = summary.iter().map(|row| {
        let mut cells =
            vec![row.source.clone(), row.sc_type.clone(), row.n.to_string(), cell(row.retention_rate_pct)];
        match &row.compliance {
            Some(columns) => {
                cells.extend(columns.rates_pct.map(cell));
                cells.push(cell(columns.effective_retention_pct));
            }
            None => cells.resize(header.len(), String::new()),
        }
        cells
    });
    write_csv(&header, lines)
}

/// A number as Python writes it; empty for `None`.
pub(super) fn cell(value: Option<f64>) -> String {
    value.map(pyjson::float_repr).unwrap_or_default()
}

/// Lines in Python's default CSV dialect.
pub(super) fn write_csv(
    header: &[String],
    lines: impl Iterator<Item = Vec<String>>,
) -> Result<String, csv::Error> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(header)?;
    for line in lines {
        writer.write_record(&line)?;
    }
    let bytes = writer.into_inner().map_err(|error| csv::Error::from(error.into_error()))?;
    // Only strings were written, so the lossy conversion loses nothing.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn fixture(name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/summary");
        std::fs::read_to_string(folder.join(name)).unwrap()
    }

    fn rows(name: &str) -> Vec<ResultRow> {
        fixture(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    // scripts/export_summary_fixture.py wrote both files of a pair, the table with conpact 0.1.0's own code.
    #[test]
    fn tables_equal_conpacts() {
        for name in ["full", "retention-only", "unscored", "quoted"] {
            let table = summary_csv(&summarize(&rows(&format!("{name}.jsonl")))).unwrap();
            assert_eq!(fixture(&format!("{name}.csv")), table, "{name}");
        }
    }

    #[test]
    fn rows_read_and_write_back_the_same() {
        for name in ["full.jsonl", "retention-only.jsonl"] {
            for (line, row) in fixture(name).lines().zip(rows(name)) {
                assert_eq!(line, row.to_json_line().unwrap());
            }
        }
    }

    #[test]
    fn where_conpact_raises_the_cell_is_empty() {
        let mut rows = rows("full.jsonl");
        for row in &mut rows {
            for answer in row.probes.iter_mut().flatten() {
                answer.compliant = None;
            }
            row.retention = None;
        }
        let table = summary_csv(&summarize(&rows[..1])).unwrap();
        let line = table.lines().nth(1).unwrap();
        assert_eq!(format!("{},all,1,,,,,,", rows[0].source), line);
    }
}
