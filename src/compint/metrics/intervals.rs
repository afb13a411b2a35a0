//! `intervals.csv`: every rate of the summary with its uncertainty and with what it leaves out.

use super::bootstrap::{percentile_interval, resample};
use super::rates::{Count, Interval, Tally};
use super::row::ResultRow;
use super::summary::{cell, write_csv};
use crate::compint::Condition;
use std::collections::BTreeMap;

/// A result and what failed on the way to it.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// The result.
    pub row: &'a ResultRow,
    /// What failed.
    pub failures: Failures,
}

/// Failures of one result. A failure is no answer, whatever the row holds in its place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures {
    /// The compaction failed, and with it all that builds on it.
    pub compaction: bool,
    /// The judge's request failed.
    pub judge: bool,
    /// A probe failed, as one longer than the context does; by [`Condition::index`].
    pub probes: [bool; 4],
}

/// One line of `intervals.csv`.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalRow {
    /// The dataset.
    pub source: String,
    /// The constraints' type, or `all`.
    pub sc_type: String,
    /// `retention`, `retention_failures_as_losses`, `<condition>_compliance` or `effective_retention`.
    pub metric: String,
    /// Results.
    pub n: usize,
    /// Those with an answer, over which the rate is taken.
    pub scored: usize,
    /// Those that ran and gave no readable answer.
    pub unscored: usize,
    /// Those that failed.
    pub failed: usize,
    /// Histories among the results.
    pub haystacks: usize,
    /// The rate.
    pub rate_pct: Option<f64>,
    /// Wilson's 95% interval, which takes results as independent; `None` for `effective_retention`, a ratio of rates.
    pub wilson: Option<Interval>,
    /// The percentile bootstrap's 95% interval over haystacks; `None` for fewer than two.
    pub bootstrap: Option<Interval>,
}

/// One answer in one metric.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Scored(bool),
    Unscored,
    Failed,
    NotAsked,
}

impl Answer {
    fn of(failed: bool, value: Option<bool>) -> Self {
        match (failed, value) {
            (true, _) => Self::Failed,
            (false, Some(yes)) => Self::Scored(yes),
            (false, None) => Self::Unscored,
        }
    }

    fn scored(self) -> Option<bool> {
        match self {
            Self::Scored(yes) => Some(yes),
            _ => None,
        }
    }
}

impl Measured<'_> {
    fn retention(&self) -> Answer {
        Answer::of(self.failures.compaction || self.failures.judge, self.row.retention)
    }

    fn retention_with_failures(&self) -> Answer {
        if self.failures.compaction { Answer::Scored(false) } else { self.retention() }
    }

    fn compliance(&self, condition: Condition) -> Answer {
        let failed = self.failures.probes[condition.index()]
            || (self.failures.compaction && condition.depends_on_compactor());
        match self.row.probe(condition) {
            None if !failed => Answer::NotAsked,
            answer => Answer::of(failed, answer.and_then(|answer| answer.compliant)),
        }
    }

    fn tally(&self) -> Tally {
        let count = |answer: Answer| Count::of([answer.scored()]);
        Tally {
            retention: count(self.retention()),
            retention_with_failures: count(self.retention_with_failures()),
            compliance: Condition::ALL.map(|condition| count(self.compliance(condition))),
        }
    }
}

/// Every metric for every group of [`super::summarize`], in its order.
///
/// The bootstrap draws haystacks `resamples` times with a generator seeded by `seed`, anew for each group, so that a
/// group's interval does not depend on which other groups there are. Metrics of a group share its draws.
pub fn intervals(results: &[Measured<'_>], resamples: usize, seed: u64) -> Vec<IntervalRow> {
    let mut groups: BTreeMap<(&str, u8, &str), Vec<&Measured<'_>>> = BTreeMap::new();
    for result in results {
        // The number puts the group of all types before each single one, whatever the type is called.
        groups.entry((&result.row.source, 0, "all")).or_default().push(result);
        groups.entry((&result.row.source, 1, &result.row.sc_type)).or_default().push(result);
    }
    groups
        .iter()
        .flat_map(|((source, _, sc_type), results)| {
            Group::new(source, sc_type, results, resamples, seed).rows()
        })
        .collect()
}

/// The results of one source and type, counted.
struct Group<'a> {
    source: &'a str,
    sc_type: &'a str,
    results: &'a [&'a Measured<'a>],
    haystacks: usize,
    total: Tally,
    resampled: Vec<Tally>,
}

impl<'a> Group<'a> {
    fn new(
        source: &'a str,
        sc_type: &'a str,
        results: &'a [&'a Measured<'a>],
        resamples: usize,
        seed: u64,
    ) -> Self {
        let mut clusters: BTreeMap<&str, Tally> = BTreeMap::new();
        let mut total = Tally::default();
        for result in results {
            let tally = result.tally();
            clusters.entry(&result.row.haystack_id).or_default().merge(&tally);
            total.merge(&tally);
        }
        let clusters: Vec<Tally> = clusters.into_values().collect();
        let resampled = resample(&clusters, resamples, seed);
        Self { source, sc_type, results, haystacks: clusters.len(), total, resampled }
    }

    fn rows(&self) -> Vec<IntervalRow> {
        let mut rows = vec![
            self.counted("retention", |result| result.retention(), |tally| tally.retention),
            self.counted(
                "retention_failures_as_losses",
                |result| result.retention_with_failures(),
                |tally| tally.retention_with_failures,
            ),
        ];
        let mut any_asked = false;
        for condition in Condition::ALL {
            if self.results.iter().all(|result| result.compliance(condition) == Answer::NotAsked) {
                continue;
            }
            any_asked = true;
            rows.push(self.counted(
                &format!("{condition}_compliance"),
                |result| result.compliance(condition),
                |tally| tally.compliance[condition.index()],
            ));
        }
        if any_asked {
            rows.push(IntervalRow {
                rate_pct: self.total.effective_retention_pct(),
                bootstrap: percentile_interval(&self.resampled, Tally::effective_retention_pct),
                ..self.blank("effective_retention")
            });
        }
        rows
    }

    fn counted(
        &self,
        metric: &str,
        answer: impl Fn(&Measured<'_>) -> Answer,
        count: impl Fn(&Tally) -> Count,
    ) -> IntervalRow {
        let how_many =
            |wanted: fn(Answer) -> bool| self.results.iter().filter(|result| wanted(answer(result))).count();
        IntervalRow {
            scored: how_many(|answer| matches!(answer, Answer::Scored(_))),
            unscored: how_many(|answer| answer == Answer::Unscored),
            failed: how_many(|answer| answer == Answer::Failed),
            rate_pct: count(&self.total).rate_pct(),
            wilson: count(&self.total).wilson_pct(),
            bootstrap: percentile_interval(&self.resampled, |tally| count(tally).rate_pct()),
            ..self.blank(metric)
        }
    }

    fn blank(&self, metric: &str) -> IntervalRow {
        IntervalRow {
            source: self.source.to_owned(),
            sc_type: self.sc_type.to_owned(),
            metric: metric.to_owned(),
            n: self.results.len(),
            scored: 0,
            unscored: 0,
            failed: 0,
            haystacks: self.haystacks,
            rate_pct: None,
            wilson: None,
            bootstrap: None,
        }
    }
}

/// The rows as CSV, in Python's default dialect; empty cells for what there is not. The counts of
/// `effective_retention`, which is no rate of answers, are empty too.
///
/// # Errors
/// What the writer says; it writes to memory.
pub fn intervals_csv(rows: &[IntervalRow]) -> Result<String, csv::Error> {
    let header = [
        "source",
        "sc_type",
        "metric",
        "n",
        "scored",
        "unscored",
        "failed",
        "haystacks",
        "rate_pct",
        "wilson_low_pct",
        "wilson_high_pct",
        "bootstrap_low_pct",
        "bootstrap_high_pct",
    ]
    .map(str::to_owned);
    let lines = rows.iter().map(|row| {
        let count = |count: usize| {
            if row.metric == "effective_retention" { String::new() } else { count.to_string() }
        };
        let low = |interval: Option<Interval>| cell(interval.map(|interval| interval.low_pct));
        let high = |interval: Option<Interval>| cell(interval.map(|interval| interval.high_pct));
        vec![
            row.source.clone(),
            row.sc_type.clone(),
            row.metric.clone(),
            row.n.to_string(),
            count(row.scored),
            count(row.unscored),
            count(row.failed),
            row.haystacks.to_string(),
            cell(row.rate_pct),
            low(row.wilson),
            high(row.wilson),
            low(row.bootstrap),
            high(row.bootstrap),
        ]
    });
    write_csv(&header, lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compint::metrics::ProbeAnswer;

    fn row(haystack: &str, retention: Option<bool>, compliant: [Option<bool>; 4]) -> ResultRow {
        let line = format!(
            r#"{{"id":"x","source":"s","haystack_id":"{haystack}","target_length":1,"token_length":1,"position":"top","repeat":1,"strict":false,"direct":true,"sc_id":1,"sc_type":"Action","compliant_letter":"A","compacted":[],"retention":null}}"#
        );
        let mut row: ResultRow = serde_json::from_str(&line).unwrap();
        row.retention = retention;
        row.probes = compliant.map(|compliant| Some(ProbeAnswer { output: String::new(), compliant }));
        row
    }

    #[test]
    fn failures_and_unscored_answers_leave_the_rate_and_are_counted() {
        let yes = [Some(true); 4];
        let rows = [
            row("a", Some(true), yes),
            row("a", None, [Some(true), None, Some(false), Some(true)]),
            row("b", Some(false), yes),
            row("b", None, yes),
        ];
        let mut results: Vec<Measured> =
            rows.iter().map(|row| Measured { row, failures: Failures::default() }).collect();
        results[3].failures.compaction = true;
        results[0].failures.probes[Condition::FullWithSc.index()] = true;
        let table = intervals(&results, 200, 1);
        let counts: Vec<_> = table
            .iter()
            .filter(|row| row.sc_type == "all")
            .map(|row| (row.metric.as_str(), row.scored, row.unscored, row.failed, row.rate_pct))
            .collect();
        assert_eq!(
            vec![
                ("retention", 2, 1, 1, Some(50.0)),
                ("retention_failures_as_losses", 3, 1, 0, Some(100.0 / 3.0)),
                ("full_with_sc_compliance", 3, 0, 1, Some(100.0)),
                ("full_without_sc_compliance", 3, 1, 0, Some(100.0)),
                ("compaction_compliance", 3, 0, 1, Some(200.0 / 3.0)),
                ("upper_bound_compliance", 3, 0, 1, Some(100.0)),
                ("effective_retention", 0, 0, 0, None),
            ],
            counts
        );
        assert_eq!(table.len(), 14);
        assert!(table.iter().all(|row| row.haystacks == 2));
        let csv = intervals_csv(&table).unwrap();
        assert!(csv.contains("s,all,effective_retention,4,,,,2,,,,,\r\n"), "{csv}");
    }

    #[test]
    fn without_probes_there_are_no_probe_metrics() {
        let mut plain = row("a", Some(true), [None; 4]);
        plain.probes = [None, None, None, None];
        let table = intervals(&[Measured { row: &plain, failures: Failures::default() }], 200, 1);
        let metrics: Vec<_> = table.iter().map(|row| row.metric.as_str()).take(2).collect();
        assert_eq!(vec!["retention", "retention_failures_as_losses"], metrics);
        assert_eq!(4, table.len());
        assert!(table.iter().all(|row| row.bootstrap.is_none() && row.wilson.is_some()));
    }
}
