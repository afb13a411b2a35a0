//! [`Experiment::run`].

use super::collect::{Batch, Collector, Task};
use super::experiment::Experiment;
use super::phases::{Phase, Step};
use super::record::{PromptLog, Recorder};
use super::sources::PreparedInstance;
use super::weights::{Clock, Weights};
use super::{NewResult, ResultSink, RunPlan, RunnerError};
use crate::compint::metrics::Agreement;
use crate::engine::{EngineStats, MemoryReport, ModelHost, ModelSpec};
use crate::kv::disk::DirectoryUse;
use crate::model::QuantizationReport;
use crate::tasks::compact::lingua::LlmLingua2;
use crate::tasks::judge::Verdict;
use crate::tasks::{RunEnd, RunOptions, run_jobs};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const IN_FLIGHT: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// Is told how a run goes.
pub trait RunObserver {
    /// Work of this kind begins.
    fn stage(&mut self, name: &str);
    /// Places filled so far, all there are, and how many of the filled ones have a result of an earlier session.
    fn progress(&mut self, done: usize, total: usize, reused: usize);
    /// Tokens computed in this session: prompts and outputs.
    fn tokens(&mut self, prefilled: u64, generated: u64);
    /// The time left, where something was computed: from the estimate's shares and the speed of this session.
    fn time_left(&mut self, left: Option<Duration>);
    /// A model's bytes are being read.
    fn loading(&mut self, model: &ModelSpec, done: u64, total: u64);
    /// A model was loaded, and quantised where that was asked for.
    fn loaded(&mut self, model: &ModelSpec, memory: &MemoryReport, quantization: Option<&QuantizationReport>);
}

/// Is told and says nothing.
pub struct SilentObserver;

impl RunObserver for SilentObserver {
    fn stage(&mut self, _: &str) {}
    fn progress(&mut self, _: usize, _: usize, _: usize) {}
    fn tokens(&mut self, _: u64, _: u64) {}
    fn time_left(&mut self, _: Option<Duration>) {}
    fn loading(&mut self, _: &ModelSpec, _: u64, _: u64) {}
    fn loaded(&mut self, _: &ModelSpec, _: &MemoryReport, _: Option<&QuantizationReport>) {}
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunReport {
    /// Whether it was interrupted; the rest is left for the next call.
    pub interrupted: bool,
    /// The date that templates saw.
    pub date: String,
    /// The judge against its labels, where there are some.
    pub judge: Option<Agreement>,
    /// Results made in this session.
    pub new_results: usize,
    /// Loads of models in this session, as the sink names them, with their counters.
    pub loads: BTreeMap<i64, EngineStats>,
}

impl RunReport {
    /// What the folder of prefixes did, over all loads.
    pub fn kv_directory(&self) -> DirectoryUse {
        self.loads.values().map(|stats| stats.kv_directory).sum()
    }
}

/// The state of one session.
struct Session<'a> {
    experiment: &'a Experiment,
    sink: &'a mut dyn ResultSink,
    observer: &'a mut dyn RunObserver,
    interrupted: &'a AtomicBool,
    host: ModelHost,
    /// The encoder of `llmlingua2`, while compactions are made.
    encoder: Option<Arc<LlmLingua2>>,
    /// The load that each model's engine is of.
    current: BTreeMap<ModelSpec, i64>,
    log: RefCell<PromptLog>,
    report: RunReport,
    weights: Weights,
    clock: RefCell<Clock>,
    done: usize,
    reused: usize,
    total: usize,
    /// Keys of the results made so far.
    made: HashSet<String>,
}

impl Experiment {
    /// What exports need to know of the run.
    pub fn plan(&self) -> RunPlan {
        let probe = self.config.probe.as_ref();
        RunPlan {
            settings: self.sources.names(),
            compactors: self.config.compact.compactors.iter().map(ToString::to_string).collect(),
            conditions: probe.map_or_else(Vec::new, |probe| probe.conditions.0.clone()),
            generates: probe.is_none_or(|probe| probe.mode.generates()),
            chooses: probe.is_some_and(|probe| probe.mode.chooses()),
            seed: self.config.run.seed,
            models: self.recorded_models(),
        }
    }

    /// Does what is not done yet. `today` becomes the date of a new run whose config names none.
    ///
    /// When `interrupted` becomes true the step under way is finished, its results are kept, and the run ends.
    ///
    /// # Errors
    /// [`RunnerError`]. Results kept before stay kept.
    pub fn run(
        &self,
        sink: &mut dyn ResultSink,
        observer: &mut dyn RunObserver,
        today: &str,
        interrupted: &AtomicBool,
    ) -> Result<RunReport, RunnerError> {
        let date = sink.fix_date(self.config.run.date.as_deref(), today)?;
        let constraints = self.constraints.as_ref();
        let pool = format!("{:?}", self.options.kv_pool_bytes);
        sink.begin(&self.plan(), &pool, &mut self.sources.planned(&self.protocol, constraints)?)?;
        let budget = self.config.engine.memory_mib.unwrap_or(0).saturating_mul(1 << 20);
        let weights = Weights::new(self)?;
        let mut session = Session {
            clock: RefCell::new(Clock::new(&weights)),
            weights,
            experiment: self,
            sink,
            observer,
            interrupted,
            host: ModelHost::new(budget, self.options.clone()),
            encoder: None,
            current: BTreeMap::new(),
            log: RefCell::default(),
            report: RunReport { date, ..RunReport::default() },
            done: 0,
            reused: 0,
            made: HashSet::new(),
            total: self.labels.len() + self.num_instances() * self.cells_per_instance(),
        };
        for phase in self.phases() {
            if session.run_phase(&phase)?.is_break() {
                session.report.interrupted = true;
                break;
            }
        }
        Ok(session.report)
    }
}

impl Session<'_> {
    fn run_phase(&mut self, phase: &Phase<ModelSpec>) -> Result<ControlFlow<()>, RunnerError> {
        let experiment = self.experiment;
        if phase.steps.contains(&Step::Labels) && self.judge_labels(&phase.model)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let (after, first): (Vec<Step>, Vec<Step>) =
            phase.steps.iter().copied().partition(|step| step.needs_compaction());
        for group in experiment.sources.groups(&experiment.protocol, experiment.constraints.as_ref())? {
            for steps in [&first, &after] {
                if self.run_steps(&phase.model, steps, &group)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        self.encoder = None;
        Ok(ControlFlow::Continue(()))
    }

    fn run_steps(
        &mut self,
        model: &ModelSpec,
        steps: &[Step],
        group: &[PreparedInstance],
    ) -> Result<ControlFlow<()>, RunnerError> {
        let Some(history) = group.first().map(|prepared| &prepared.instance.haystack_id) else {
            return Ok(ControlFlow::Continue(()));
        };
        if self.interrupted.load(Ordering::Relaxed) {
            return Ok(ControlFlow::Break(()));
        }
        let names: Vec<&str> = steps.iter().map(|step| name(*step)).collect();
        let date = self.report.date.clone();
        let mut batch = Batch::default();
        let mut collector = Collector {
            experiment: self.experiment,
            date: &date,
            weights: &self.weights,
            sink: &mut *self.sink,
            encoder: &mut self.encoder,
            observer: &mut *self.observer,
            made: &self.made,
        };
        for &step in steps {
            collector.collect(step, group, &mut batch)?;
        }
        self.observer.stage(&format!("{history}: {}", names.join(", ")));
        self.run_batch(model, batch)
    }

    fn judge_labels(&mut self, model: &ModelSpec) -> Result<ControlFlow<()>, RunnerError> {
        let date = self.report.date.clone();
        let mut batch = Batch::default();
        let mut collector = Collector {
            experiment: self.experiment,
            date: &date,
            weights: &self.weights,
            sink: &mut *self.sink,
            encoder: &mut self.encoder,
            observer: &mut *self.observer,
            made: &self.made,
        };
        let keys = collector.labels(&mut batch)?;
        self.observer.stage(name(Step::Labels));
        if self.run_batch(model, batch)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut pairs = Vec::new();
        for (label, key) in self.experiment.labels.iter().zip(keys) {
            let Some(payload) = self.sink.get(&key)? else { continue };
            let verdict: Verdict = serde_json::from_str(&payload).map_err(|source| RunnerError::Payload {
                key,
                kind: "judge",
                source,
            })?;
            pairs.push((label.human_retained, verdict.retained.answer()));
        }
        self.report.judge = Some(Agreement::of(pairs));
        Ok(ControlFlow::Continue(()))
    }

    fn run_batch(&mut self, model: &ModelSpec, batch: Batch) -> Result<ControlFlow<()>, RunnerError> {
        self.sink.link(&batch.cells)?;
        self.done += batch.settled;
        self.reused += batch.reused;
        self.clock.get_mut().settle(batch.settled_weight);
        self.observer.progress(self.done, self.total, self.reused);
        if batch.tasks.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let load = self.load(model)?;
        let end = self.run_tasks(model, load, batch.tasks)?;
        Ok(match end {
            RunEnd::Finished => ControlFlow::Continue(()),
            RunEnd::Stopped | RunEnd::Interrupted => ControlFlow::Break(()),
        })
    }

    /// Makes sure the model is loaded, and names the load.
    fn load(&mut self, model: &ModelSpec) -> Result<i64, RunnerError> {
        let before = self.host.loads();
        let observer = &mut *self.observer;
        let engine = self.host.engine(model, &mut |done, total| observer.loading(model, done, total))?;
        let (digest, memory) = (engine.model_digest().to_owned(), engine.memory());
        let quantization = engine.quantization().cloned();
        if let Some(&load) = self.current.get(model).filter(|_| self.host.loads() == before) {
            return Ok(load);
        }
        self.observer.loaded(model, &memory, quantization.as_ref());
        let load = self.sink.open_load(&digest, memory.block_size)?;
        self.current.insert(model.clone(), load);
        Ok(load)
    }

    fn run_tasks(&mut self, model: &ModelSpec, load: i64, tasks: Vec<Task>) -> Result<RunEnd, RunnerError> {
        let others =
            totals(self.report.loads.iter().filter(|(other, _)| **other != load).map(|(_, stats)| stats));
        let options = RunOptions {
            max_in_flight: self.experiment.config.engine.in_flight.unwrap_or(IN_FLIGHT),
            date: self.report.date.clone(),
        };
        let per_token = self.experiment.weights_per_token(model);
        let engine = self.host.engine(model, &mut |_, _| {})?;
        self.clock.get_mut().change(&engine.stats(), per_token);
        let clock = &self.clock;
        let observer = RefCell::new(&mut *self.observer);
        let (sink, log) = (&mut *self.sink, &self.log);
        let (done, total, reused, new_results, made) =
            (&mut self.done, self.total, self.reused, &mut self.report.new_results, &mut self.made);
        let latest = RefCell::new(engine.stats());
        let mut failure = None;
        let mut on_done = |(key, kind, cells, weight): (String, &'static str, usize, f64),
                           output: super::work::WorkOutput| {
            let kept = keep(sink, log, key.clone(), kind, &output);
            // What a killed session computed is counted up to its last result.
            let kept = kept.and_then(|()| Ok(sink.update_load(load, &latest.borrow())?));
            match kept {
                Ok(()) => {
                    made.insert(key);
                    *done += cells;
                    *new_results += 1;
                    clock.borrow_mut().make(cells as f64 * weight);
                    observer.borrow_mut().progress(*done, total, reused);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    failure = Some(error);
                    ControlFlow::Break(())
                }
            }
        };
        let mut on_step = |stats: &EngineStats| {
            let (prefilled, generated) = (stats.prefilled_tokens, stats.generated_tokens);
            latest.borrow_mut().clone_from(stats);
            clock.borrow_mut().compute(stats, per_token);
            let left = clock.borrow().left();
            observer.borrow_mut().time_left(left);
            observer.borrow_mut().tokens(others.0 + prefilled, others.1 + generated);
        };
        let mut recorder = Recorder { engine, load, log, on_step: &mut on_step };
        let jobs = tasks.into_iter().map(|task| ((task.key, task.kind, task.cells, task.weight), task.work));
        let end = run_jobs(&mut recorder, jobs, &options, &mut on_done, self.interrupted);
        let stats = recorder.engine.stats();
        if let Some(error) = failure {
            return Err(error);
        }
        self.sink.update_load(load, &stats)?;
        self.report.loads.insert(load, stats);
        Ok(end?)
    }
}

/// Makes a result durable, with the prompts that were given to the engine meanwhile.
fn keep(
    sink: &mut dyn ResultSink,
    log: &RefCell<PromptLog>,
    key: String,
    kind: &'static str,
    output: &super::work::WorkOutput,
) -> Result<(), RunnerError> {
    let payload =
        output.to_json().map_err(|source| RunnerError::Payload { key: key.clone(), kind, source })?;
    let (seconds, depends_on_pool) = (output.seconds(), output.was_refused());
    let result = NewResult { key, kind, payload, seconds, depends_on_pool };
    let prompts = std::mem::take(&mut log.borrow_mut().pending);
    Ok(sink.put(&result, &prompts)?)
}

fn totals<'a>(loads: impl Iterator<Item = &'a EngineStats>) -> (u64, u64) {
    loads.fold((0, 0), |(prefilled, generated), stats| {
        (prefilled + stats.prefilled_tokens, generated + stats.generated_tokens)
    })
}

/// A step in words.
pub(super) fn name(step: Step) -> &'static str {
    match step {
        Step::Labels => "judge labelled contexts",
        Step::Extract => "extract",
        Step::Compact => "compact",
        Step::FullProbe => "probe full history",
        Step::Judge => "judge",
        Step::CompactedProbe => "probe compacted history",
    }
}
