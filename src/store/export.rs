//! [`RunStore::export`]: the files of a run.

use super::rows::Measurement;
use super::tables::{choice_line, details_line};
use super::{RunStore, StoreError};
use crate::compint::metrics::bootstrap::RESAMPLES;
use crate::compint::metrics::{
    IntervalRow, Measured, ResultRow, intervals, intervals_csv, summarize, summary_csv,
};
use crate::compint::runner::RunPlan;
use crate::history::write_atomically;
use serde_json::Value;
use std::io;
use std::path::{Path, PathBuf};

/// What one compactor came to in one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct SettingSummary {
    /// The setting.
    pub setting: String,
    /// The compactor.
    pub compactor: String,
    /// Where its files are.
    pub folder: PathBuf,
    /// Every metric of every source.
    pub intervals: Vec<IntervalRow>,
    /// Instances on which something failed.
    pub failed: usize,
    /// The first of the causes.
    pub first_cause: Option<String>,
    /// Answers that cannot be read.
    pub unscored: usize,
    /// Turns of extractions that failed, where the compactor takes part in extraction.
    pub failed_turns: usize,
    /// Mean tokens before and after, over compactions that did not fail.
    pub tokens: Option<(f64, f64)>,
}

/// All that was exported.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Exported {
    /// By setting, then by compactor, in the config's order.
    pub summaries: Vec<SettingSummary>,
}

impl RunStore {
    /// Writes `SETTING/COMPACTOR/{results.jsonl, summary.csv, intervals.csv, details.jsonl}`, and `choice.jsonl` where
    /// letters were scored. Each file appears whole or not at all.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn export(&self, folder: &Path) -> Result<Exported, StoreError> {
        let mut exported = Exported::default();
        let Some(plan) = self.plan()? else { return Ok(exported) };
        for setting in &plan.settings {
            for compactor in &plan.compactors {
                // A colon cannot stand in a file's name everywhere.
                let folder = folder.join(setting).join(compactor.replace(':', "_"));
                std::fs::create_dir_all(&folder)
                    .map_err(|source| StoreError::Folder { path: folder.clone(), source })?;
                remove_parts(&folder)
                    .map_err(|source| StoreError::Folder { path: folder.clone(), source })?;
                let measurements = self.measurements(&plan, setting, compactor)?;
                let intervals = write_files(&folder, &plan, &measurements)?;
                exported.summaries.push(SettingSummary {
                    setting: setting.clone(),
                    folder,
                    intervals,
                    failed: measurements.iter().filter(|measurement| measurement.failed()).count(),
                    first_cause: measurements.iter().find_map(first_cause),
                    unscored: measurements.iter().map(Measurement::unscored).sum(),
                    failed_turns: failed_turns(compactor, &measurements),
                    tokens: mean_tokens(&measurements),
                    compactor: compactor.clone(),
                });
            }
        }
        Ok(exported)
    }
}

/// Removes what an export that was killed left half written. The run's lock is held, so no other process writes here.
fn remove_parts(folder: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "part") {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

fn write_files(
    folder: &Path,
    plan: &RunPlan,
    measurements: &[Measurement],
) -> Result<Vec<IntervalRow>, StoreError> {
    let rows: Vec<ResultRow> = measurements.iter().map(|measurement| measurement.row.clone()).collect();
    write_atomically(&folder.join("results.jsonl"), |out| {
        rows.iter().try_for_each(|row| writeln!(out, "{}", row.to_json_line()?))
    })?;
    let summary =
        summary_csv(&summarize(&rows)).map_err(|source| StoreError::Csv { file: "summary.csv", source })?;
    write_atomically(&folder.join("summary.csv"), |out| out.write_all(summary.as_bytes()))?;
    let measured: Vec<Measured<'_>> = measurements
        .iter()
        .map(|measurement| Measured { row: &measurement.row, failures: measurement.failures })
        .collect();
    let table = intervals(&measured, RESAMPLES, plan.seed);
    let text = intervals_csv(&table).map_err(|source| StoreError::Csv { file: "intervals.csv", source })?;
    write_atomically(&folder.join("intervals.csv"), |out| out.write_all(text.as_bytes()))?;
    write_lines(&folder.join("details.jsonl"), measurements, |one| details_line(plan, one))?;
    if plan.chooses {
        write_lines(&folder.join("choice.jsonl"), measurements, |one| choice_line(plan, one))?;
    }
    Ok(table)
}

fn write_lines(
    path: &Path,
    measurements: &[Measurement],
    line: impl Fn(&Measurement) -> Value,
) -> Result<(), StoreError> {
    write_atomically(path, |out| {
        measurements.iter().try_for_each(|measurement| -> io::Result<()> {
            serde_json::to_writer(&mut *out, &line(measurement))?;
            out.write_all(b"\n")
        })
    })?;
    Ok(())
}

fn first_cause(measurement: &Measurement) -> Option<String> {
    use crate::tasks::Outcome;
    let id = &measurement.row.id;
    if let Some(failure) = measurement.compaction.as_ref().and_then(|result| result.failure.as_ref()) {
        return Some(format!("{id}: {failure}"));
    }
    let verdict = measurement.verdict.as_ref().map(|verdict| match &verdict.retained {
        Outcome::Failed { failure } => Some(failure),
        _ => None,
    });
    let answers = measurement.answers.iter().flatten().map(|answer| &answer.letter);
    let letters = answers.chain(measurement.choices.iter().flatten().map(|choice| &choice.letter));
    let probes = letters.filter_map(|letter| match letter {
        Outcome::Failed { failure } => Some(failure),
        _ => None,
    });
    verdict.flatten().into_iter().chain(probes).next().map(|failure| format!("{id}: {failure}"))
}

fn failed_turns(compactor: &str, measurements: &[Measurement]) -> usize {
    if !compactor.ends_with("+extractor") {
        return 0;
    }
    measurements
        .iter()
        .filter_map(|one| one.extraction.as_ref())
        .map(|extraction| extraction.failed_turns())
        .sum()
}

fn mean_tokens(measurements: &[Measurement]) -> Option<(f64, f64)> {
    let whole =
        measurements.iter().filter_map(|one| one.compaction.as_ref()).filter(|one| one.failure.is_none());
    let (count, before, after) = whole.fold((0usize, 0usize, 0usize), |(count, before, after), result| {
        (count + 1, before + result.tokens_before, after + result.tokens_after)
    });
    (count > 0).then(|| (before as f64 / count as f64, after as f64 / count as f64))
}
