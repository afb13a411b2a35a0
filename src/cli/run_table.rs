//! What a run prints at its end, and before it begins.

use super::CliError;
use super::columns::align;
use super::run_progress::duration;
use crate::compint::Condition;
use crate::compint::metrics::{Count, IntervalRow};
use crate::compint::runner::{Estimate, Experiment, RunReport};
use crate::store::{Exported, PrefillCount, SettingSummary};
use std::collections::BTreeMap;
use std::time::Duration;

const CONDITIONS: [(&str, Condition); 4] = [
    ("full+sc", Condition::FullWithSc),
    ("full-sc", Condition::FullWithoutSc),
    ("compacted", Condition::Compaction),
    ("upper", Condition::UpperBound),
];

/// The table, what it means, and where the files are.
pub(super) fn print_result(
    experiment: &Experiment,
    report: &RunReport,
    exported: &Exported,
    prefill: PrefillCount,
    recovered: &BTreeMap<String, u64>,
) -> Result<(), CliError> {
    let mut lines = vec![header()];
    for summary in &exported.summaries {
        let mut sources: Vec<&str> = summary.intervals.iter().map(|row| row.source.as_str()).collect();
        sources.dedup();
        lines.extend(sources.iter().map(|source| line(summary, source)));
    }
    out_line!("{}", align(&lines, 3))?;
    out_line!(
        "retention: % of compactions that still state the constraint, by the judge. The next four: % of probes answered \
         as the constraint asks, on the full history with and without it, on the compacted one, and with it restated."
    )?;
    out_line!(
        "effective: of what restating the constraint gains over not having it, the % that is left after compaction. \
         Failed and unscored ones are in no rate; intervals.csv has them, and 95% intervals."
    )?;
    for summary in exported.summaries.iter().filter(|summary| summary.failed > 0) {
        let cause = summary.first_cause.as_deref().unwrap_or("see details.jsonl");
        out_line!("{} {}: {} failed; {cause}", summary.setting, summary.compactor, summary.failed)?;
    }
    for summary in exported.summaries.iter().filter(|summary| summary.failed_turns > 0) {
        out_line!(
            "{} {}: {} turns of extraction failed",
            summary.setting,
            summary.compactor,
            summary.failed_turns
        )?;
    }
    out_line!("{}", judge_line(report))?;
    out_line!("{}", prefill_line(&prefill))?;
    for (names, count) in &prefill.adapted {
        out_line!("{count} prompts adapted to the model's template, so that no message is lost: {names}")?;
    }
    for (names, count) in recovered {
        out_line!("{count} outputs broke their format and were read as details.jsonl says: {names}")?;
    }
    out_line!("date in templates: {}", report.date)?;
    out_line!("files: {}/SETTING/COMPACTOR/", experiment.config().folder().display())?;
    Ok(())
}

fn header() -> Vec<String> {
    let probes = CONDITIONS.iter().map(|(name, _)| (*name).to_owned());
    let front = ["setting", "source", "compactor", "n", "tokens", "retention"].map(str::to_owned);
    let back = ["effective", "failed", "unscored"].map(str::to_owned);
    front.into_iter().chain(probes).chain(back).collect()
}

fn line(summary: &SettingSummary, source: &str) -> Vec<String> {
    let of = |metric: &str| {
        let all = |row: &&IntervalRow| row.source == source && row.sc_type == "all" && row.metric == metric;
        summary.intervals.iter().find(all)
    };
    let rate = |metric: &str| match of(metric).and_then(|row| row.rate_pct) {
        Some(rate) => format!("{rate:.1}"),
        None => "-".to_owned(),
    };
    let probes = CONDITIONS.iter().map(|(_, condition)| rate(&format!("{condition}_compliance")));
    let tokens = summary.tokens.map_or("-".to_owned(), |(before, after)| format!("{before:.0}>{after:.0}"));
    let front = [
        summary.setting.clone(),
        source.to_owned(),
        summary.compactor.clone(),
        of("retention").map_or(0, |row| row.n).to_string(),
        tokens,
        rate("retention"),
    ];
    let back = [rate("effective_retention"), summary.failed.to_string(), summary.unscored.to_string()];
    front.into_iter().chain(probes).chain(back).collect()
}

fn judge_line(report: &RunReport) -> String {
    let Some(agreement) = report.judge else {
        return "judge not calibrated: [judge] names no labels".to_owned();
    };
    let rate = |count: Count| match (count.rate_pct(), count.wilson_pct()) {
        (Some(rate), Some(interval)) => {
            format!("{rate:.1}% (95% {:.1} to {:.1})", interval.low_pct, interval.high_pct)
        }
        _ => "no data".to_owned(),
    };
    let kappa = agreement.kappa().map_or("no data".to_owned(), |kappa| format!("{kappa:.2}"));
    format!(
        "judge against labels: true-positive rate {}, true-negative rate {}, agreement {}, kappa {kappa}, {} unscored",
        rate(agreement.true_positive_rate()),
        rate(agreement.true_negative_rate()),
        rate(agreement.agreement()),
        agreement.unscored
    )
}

fn prefill_line(count: &PrefillCount) -> String {
    let loads = match count.loads {
        0 | 1 => String::new(),
        loads => format!("; models were loaded {loads} times"),
    };
    let restored = if count.prefilled < count.least { " without restored ones" } else { "" };
    format!(
        "prefill: {} tokens computed, {} is the least{restored} for the {} recorded prompts of {} tokens{loads}",
        count.prefilled, count.least, count.prompts, count.prompt_tokens
    )
}

/// What a run would take.
///
/// # Errors
/// Those of [`Experiment::estimate`].
pub(super) fn print_estimate(experiment: &Experiment) -> Result<(), CliError> {
    let estimate = experiment.estimate()?;
    let header = [
        "model",
        "work",
        "prefills",
        "prompt tokens",
        "to compute",
        "output at most",
        "weights",
        "KV",
        "time",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    let mib = |bytes: u64| format!("{} MiB", bytes.div_ceil(1 << 20));
    for stage in &estimate.stages {
        lines.push(vec![
            stage.model.to_string(),
            stage.stage.to_owned(),
            String::new() + &stage.prefills.to_string(),
            stage.prompt_tokens.to_string(),
            stage.computed_tokens.to_string(),
            stage.output_tokens.to_string(),
            mib(stage.memory.0),
            mib(stage.memory.1),
            duration(Duration::from_secs_f64(stage.seconds)),
        ]);
    }
    out_line!("{}", align(&lines, 3))?;
    let sum =
        |of: fn(&crate::compint::runner::StageEstimate) -> u64| estimate.stages.iter().map(of).sum::<u64>();
    let seconds: f64 = estimate.stages.iter().map(|stage| stage.seconds).sum();
    let prefills: usize = estimate.stages.iter().map(|stage| stage.prefills).sum();
    out_line!(
        "{} instances; {prefills} prefills, {} tokens to compute of {}, at most {} tokens of output, about {}",
        estimate.instances,
        sum(|stage| stage.computed_tokens),
        sum(|stage| stage.prompt_tokens),
        sum(|stage| stage.output_tokens),
        duration(Duration::from_secs_f64(seconds))
    )?;
    out_line!("Were nothing done yet. Time is {}; outputs at their limits.", Estimate::RATE)?;
    Ok(())
}
