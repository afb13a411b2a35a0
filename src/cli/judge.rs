//! `longwick judge`: is a constraint still stated in a compacted context?

use super::model_args::ModelArgs;
use super::task_args::{GenerationArgs, write_output};
use super::watched::Progress;
use super::{CliResult, Outcome};
use crate::compint::metrics::{Agreement, Count};
use crate::compint::{Protocol, protocol};
use crate::tasks::judge::{Containment, JudgeJob, RetentionLabel, Verdict, containment, load_labels};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Ask a model whether a constraint survived a compaction; with labels, measure how far it can be trusted.
///
/// Prints one JSON object a context: the verdict, its margin, and a check that needs no model (is the constraint's
/// text there; what fraction of its content words). With --labels a summary against the human's verdicts follows on
/// standard error.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  longwick judge --model qwen3-4b --labels retention-30.jsonl --out verdicts.jsonl
  longwick judge --model qwen3-4b --sc 'Never send mail for me.' --context summary.txt

Labels are JSONL with the fields sc_text, compacted and human_retained. Exit code 1: some contexts have no verdict.")]
pub struct JudgeArgs {
    /// The judge.
    #[command(flatten)]
    pub model: ModelArgs,
    /// How it generates.
    #[command(flatten)]
    pub generation: GenerationArgs,
    /// Labelled contexts.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sc", "context"])]
    pub labels: Option<PathBuf>,
    /// The constraint.
    #[arg(long, value_name = "TEXT", requires = "context", value_parser = not_blank)]
    pub sc: Option<String>,
    /// A text file with the compacted context.
    #[arg(long, value_name = "FILE", requires = "sc")]
    pub context: Option<PathBuf>,
    /// Whose judge prompts.
    #[arg(long, value_name = "NAME", default_value = protocol::BUILT_IN)]
    pub protocol: String,
    /// The model-free check says retained from this fraction of the content words on.
    #[arg(long, value_name = "FRACTION", default_value_t = 0.5, value_parser = fraction)]
    pub words: f64,
    /// Write the verdicts here instead of standard output; the file appears whole or not at all.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

fn not_blank(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a constraint needs a text".to_owned()),
        _ => Ok(text.to_owned()),
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(fraction) if (0.0..=1.0).contains(&fraction) => Ok(fraction),
        _ => Err("it is a number from 0 to 1".to_owned()),
    }
}

#[derive(serde::Serialize)]
struct Row<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    human_retained: Option<bool>,
    #[serde(flatten)]
    verdict: &'a Verdict,
    containment: Containment,
}

/// A context to judge, with the human's verdict where there is one.
struct Case {
    label: RetentionLabel,
    is_labelled: bool,
}

/// Judges and prints.
///
/// # Errors
/// What reading the labels, the context, the protocol or the model refuses, or the engine.
pub fn run(args: JudgeArgs) -> CliResult {
    let cases = cases(&args)?;
    let protocol = Protocol::load(&args.protocol)?;
    let mut engine = args.model.load_engine()?;
    let jobs = cases
        .iter()
        .map(|Case { label, .. }| {
            JudgeJob::new(
                protocol.judge_text_messages(&label.sc_text, &label.compacted),
                args.generation.settings(),
            )
        })
        .collect();
    let checks: Vec<Containment> =
        cases.iter().map(|case| containment(&case.label.sc_text, &case.label.compacted)).collect();
    let progress = Progress::new("contexts", cases.len());
    let mut verdicts: Vec<Verdict> = Vec::with_capacity(cases.len());
    let mut written = Ok(());
    args.generation.run_each(&mut engine, &progress, jobs, &mut |index, verdict| {
        // Rows appear as they are known, so that whoever stops the command keeps those he has seen.
        if args.out.is_none() {
            written = progress.print(|| {
                let mut out = io::stdout().lock();
                write_row(&mut out, &cases[index], &verdict, checks[index]).and_then(|()| out.flush())
            });
        }
        verdicts.push(verdict);
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    args.model.say_kv_cache(&engine);
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Outcome::Finished),
        written => written?,
    }
    if args.out.is_some() {
        write_output(args.out.as_deref(), |out| {
            for ((case, verdict), &check) in cases.iter().zip(&verdicts).zip(&checks) {
                write_row(out, case, verdict, check)?;
            }
            Ok(())
        })?;
    }
    for (case, verdict) in cases.iter().zip(&verdicts) {
        if let crate::tasks::Outcome::Failed { failure } = &verdict.retained {
            eprintln!("{}: failed: {failure}", case.label.id.as_deref().unwrap_or("the context"));
        }
    }
    if args.labels.is_some() {
        let human = || cases.iter().map(|case| case.label.human_retained);
        let judged = verdicts.iter().map(|verdict| verdict.retained.answer());
        print_agreement("judge", Agreement::of(human().zip(judged)));
        let checked = checks.iter().map(|check| check.content_words.map(|fraction| fraction >= args.words));
        print_agreement("words", Agreement::of(human().zip(checked)));
    }
    let is_complete = verdicts.iter().all(|verdict| verdict.retained.answer().is_some());
    Ok(if is_complete { Outcome::Finished } else { Outcome::FinishedWithFailures })
}

fn write_row(
    out: &mut dyn Write,
    case: &Case,
    verdict: &Verdict,
    containment: Containment,
) -> io::Result<()> {
    let row = Row {
        id: case.label.id.as_deref(),
        human_retained: case.is_labelled.then_some(case.label.human_retained),
        verdict,
        containment,
    };
    serde_json::to_writer(&mut *out, &row)?;
    out.write_all(b"\n")
}

fn cases(args: &JudgeArgs) -> Result<Vec<Case>, Box<dyn std::error::Error + Send + Sync>> {
    if let Some(path) = &args.labels {
        return Ok(load_labels(path)?.into_iter().map(|label| Case { label, is_labelled: true }).collect());
    }
    let (Some(sc), Some(path)) = (&args.sc, &args.context) else {
        let ways = "nothing to judge: give --labels FILE for labelled contexts, or --sc TEXT and --context FILE for one";
        return Err(ways.into());
    };
    let compacted =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if compacted.trim().is_empty() {
        return Err(format!("{}: the context is empty: there is nothing to judge", path.display()).into());
    }
    let label = RetentionLabel { id: None, sc_text: sc.clone(), compacted, human_retained: false };
    Ok(vec![Case { label, is_labelled: false }])
}

fn print_agreement(name: &str, agreement: Agreement) {
    let rate = |count: Count| match (count.rate_pct(), count.wilson_pct()) {
        (Some(rate), Some(interval)) => {
            format!(
                "{rate:.1}% ({} of {}; 95% {:.1} to {:.1})",
                count.yes, count.of, interval.low_pct, interval.high_pct
            )
        }
        _ => "no data".to_owned(),
    };
    eprintln!("{name}: agreement {}", rate(agreement.agreement()));
    eprintln!("{name}: true-positive rate {}", rate(agreement.true_positive_rate()));
    eprintln!("{name}: true-negative rate {}", rate(agreement.true_negative_rate()));
    let kappa = agreement.kappa().map_or("no data".to_owned(), |kappa| format!("{kappa:.3}"));
    eprintln!("{name}: Cohen's kappa {kappa}; {} without a verdict", agreement.unscored);
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Wrapper {
        #[command(flatten)]
        args: JudgeArgs,
    }

    fn parse(line: &str) -> Result<JudgeArgs, clap::Error> {
        Wrapper::try_parse_from(line.split(' ')).map(|wrapper| wrapper.args)
    }

    #[test]
    fn labels_or_one_context_but_not_both_or_neither() {
        assert!(parse("x --model m --labels l.jsonl").is_ok());
        assert!(parse("x --model m --sc s --context c.txt").is_ok());
        let error = cases(&parse("x --model m").unwrap()).err().unwrap().to_string();
        assert!(error.contains("--labels FILE") && error.contains("--sc TEXT and --context FILE"), "{error}");
        for wrong in [" --sc s", " --context c.txt", " --labels l --sc s --context c"] {
            assert!(parse(&format!("x --model m{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn empty_texts_and_wrong_fractions_are_refused() {
        for wrong in ["nan", "-0.1", "1.5", "half"] {
            assert!(parse(&format!("x --model m --labels l --words={wrong}")).is_err(), "{wrong}");
        }
        assert_eq!(parse("x --model m --labels l --words 1").unwrap().words, 1.0);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("context.txt");
        std::fs::write(&path, " \n").unwrap();
        let line = |sc| ["x", "--model", "m", "--sc", sc, "--context", path.to_str().unwrap()];
        assert!(Wrapper::try_parse_from(line(" ")).is_err());
        let args = Wrapper::try_parse_from(line("Use tabs.")).unwrap().args;
        let error = cases(&args).err().unwrap().to_string();
        assert!(error.ends_with("context.txt: the context is empty: there is nothing to judge"), "{error}");
    }

    #[test]
    fn one_context_becomes_one_unlabelled_case() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("context.txt");
        std::fs::write(&path, "the context").unwrap();
        let line = ["x", "--model", "m", "--sc", "Use tabs.", "--context", path.to_str().unwrap()];
        let args = Wrapper::try_parse_from(line).unwrap().args;
        let cases = cases(&args).unwrap();
        assert_eq!((cases.len(), cases[0].is_labelled), (1, false));
        assert_eq!(
            (cases[0].label.sc_text.as_str(), cases[0].label.compacted.as_str()),
            ("Use tabs.", "the context")
        );
    }
}
