//! From instances to tasks: prompts, keys, and which result stands where.

use super::experiment::Experiment;
use super::phases::Step;
use super::run::RunObserver;
use super::sources::PreparedInstance;
use super::weights::Weights;
use super::work::{Work, WorkOutput, extraction_was_refused, was_refused};
use super::{Cell, KeyBase, NewResult, ResultSink, RunnerError, result_key};
use crate::compint::{Condition, NamedSummary};
use crate::engine::ModelSpec;
use crate::history::{Message, Role};
use crate::tasks::GenerationSettings;
use crate::tasks::compact::lingua::LlmLingua2;
use crate::tasks::compact::{
    CompactJob, CompactionFailure, CompactionInput, CompactionResult, CompactorSpec, SummaryPrompt,
};
use crate::tasks::count_tokens;
use crate::tasks::extract::{ExtractJob, ExtractSettings, Extraction};
use crate::tasks::judge::JudgeJob;
use crate::tasks::probe::{ChoiceProbe, GenerateProbe};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A task to run, and how many places wait for it.
pub(super) struct Task {
    pub(super) key: String,
    pub(super) kind: &'static str,
    pub(super) work: Work,
    pub(super) cells: usize,
    /// Expected seconds of one place's work, see [`Weights`].
    pub(super) weight: f64,
}

/// Tasks of one batch. Those of the same key are one.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) tasks: Vec<Task>,
    by_key: HashMap<String, usize>,
    pub(super) cells: Vec<Cell>,
    /// Places whose result is there already, or will not be asked for.
    pub(super) settled: usize,
    /// Expected seconds of their work.
    pub(super) settled_weight: f64,
    /// Of the settled places, those whose result an earlier session made.
    pub(super) reused: usize,
}

impl Batch {
    fn settle(&mut self, cells: usize, weight: f64) {
        self.settled += cells;
        self.settled_weight += cells as f64 * weight;
    }
}

/// Makes tasks for one date and one sink.
pub(super) struct Collector<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) date: &'a str,
    pub(super) weights: &'a Weights,
    pub(super) sink: &'a mut dyn ResultSink,
    /// The encoder of `llmlingua2`, once it is needed.
    pub(super) encoder: &'a mut Option<Arc<LlmLingua2>>,
    /// Is told how far the encoder's load is.
    pub(super) observer: &'a mut dyn RunObserver,
    /// Keys of the results that this session made.
    pub(super) made: &'a HashSet<String>,
}

impl Collector<'_> {
    /// The judge's labelled contexts; no instance waits for them.
    pub(super) fn labels(&mut self, batch: &mut Batch) -> Result<Vec<String>, RunnerError> {
        let experiment = self.experiment;
        let settings = experiment.judge_settings();
        let mut keys = Vec::new();
        for label in &experiment.labels {
            let messages = experiment.protocol.judge_text_messages(&label.sc_text, &label.compacted);
            let key = self.key("judge", Step::Judge, &(&messages, &settings))?;
            self.add(batch, (Step::Labels, "judge"), &key, || {
                Work::Judge(JudgeJob::new(messages, settings.clone()))
            })?;
            keys.push(key);
        }
        Ok(keys)
    }

    /// The tasks of one step for the instances of one history.
    pub(super) fn collect(
        &mut self,
        step: Step,
        group: &[PreparedInstance],
        batch: &mut Batch,
    ) -> Result<(), RunnerError> {
        for prepared in group {
            match step {
                Step::Labels => {}
                Step::Extract => self.extract(prepared, batch)?,
                Step::Compact => self.compact(prepared, batch)?,
                Step::FullProbe => self.probe_full(prepared, batch)?,
                Step::Judge | Step::CompactedProbe => self.after_compaction(step, prepared, batch)?,
            }
        }
        Ok(())
    }

    fn key(&self, kind: &'static str, step: Step, inputs: &impl Serialize) -> Result<String, RunnerError> {
        let experiment = self.experiment;
        let model = experiment.model_of(step).and_then(|name| experiment.models.get(name));
        let identity = model.and_then(|model| experiment.identities.get(model));
        let base = KeyBase {
            model: identity.map_or("", |identity| &identity.digest),
            arithmetic: identity.map_or("", |identity| &identity.arithmetic),
            date: self.date,
        };
        result_key(kind, &base, inputs).map_err(|source| RunnerError::Payload {
            key: "to be made".to_owned(),
            kind,
            source,
        })
    }

    /// Adds a task unless its result is there; whether the result is there already.
    fn add(
        &mut self,
        batch: &mut Batch,
        (step, kind): (Step, &'static str),
        key: &str,
        work: impl FnOnce() -> Work,
    ) -> Result<bool, RunnerError> {
        if let Some(&index) = batch.by_key.get(key) {
            batch.tasks[index].cells += 1;
            return Ok(false);
        }
        if self.settle_kept(batch, step, key)? {
            return Ok(true);
        }
        let weight = self.weights.of(step);
        batch.by_key.insert(key.to_owned(), batch.tasks.len());
        batch.tasks.push(Task { key: key.to_owned(), kind, work: work(), cells: 1, weight });
        Ok(false)
    }

    /// Counts a place as filled where its result is there; whether it is.
    fn settle_kept(&self, batch: &mut Batch, step: Step, key: &str) -> Result<bool, RunnerError> {
        let is_kept = self.sink.get(key)?.is_some();
        if is_kept {
            batch.settle(1, self.weights.of(step));
            batch.reused += usize::from(!self.made.contains(key));
        }
        Ok(is_kept)
    }

    fn load<T: DeserializeOwned>(&self, kind: &'static str, key: &str) -> Result<Option<T>, RunnerError> {
        let Some(payload) = self.sink.get(key)? else { return Ok(None) };
        let read = serde_json::from_str(&payload);
        read.map(Some).map_err(|source| RunnerError::Payload { key: key.to_owned(), kind, source })
    }

    fn extract_key(
        &self,
        prepared: &PreparedInstance,
        settings: &ExtractSettings,
    ) -> Result<String, RunnerError> {
        let prompt = self.experiment.extraction.as_deref();
        self.key("extract", Step::Extract, &(&*prepared.messages, prompt, settings))
    }

    fn extract(&mut self, prepared: &PreparedInstance, batch: &mut Batch) -> Result<(), RunnerError> {
        let Some(prompt) = self.experiment.extraction.clone() else { return Ok(()) };
        let settings = self.experiment.extract_settings();
        let key = self.extract_key(prepared, &settings)?;
        batch.cells.push(cell(prepared, "", "extract".to_owned(), &key));
        let history = prepared.messages.clone();
        self.add(batch, (Step::Extract, "extract"), &key, || {
            Work::Extract(ExtractJob::new(history, prompt, settings))
        })?;
        Ok(())
    }

    /// The key of a compactor without `+extractor`.
    fn base_key(&self, prepared: &PreparedInstance, spec: &CompactorSpec) -> Result<String, RunnerError> {
        let experiment = self.experiment;
        let base = CompactorSpec { kind: spec.kind.clone(), extractor: false };
        // What a model is asked matters where one is asked, and not where messages are only chosen.
        let asked = spec.prompt_name().map(|name| {
            let protocol = &experiment.compaction;
            let prompt = (protocol.compaction.get(name), &protocol.transcript);
            (prompt, experiment.compact_settings(), experiment.config.compact.cutoff)
        });
        match experiment.encoder.as_ref().filter(|_| spec.needs_encoder()) {
            Some((_, encoder)) => {
                let encoder = (&encoder.digest, &encoder.arithmetic);
                self.key("compact", Step::Compact, &(&base, &*prepared.messages, encoder))
            }
            None => self.key("compact", Step::Compact, &(&base, &*prepared.messages, asked)),
        }
    }

    /// The encoder, loaded on first use: a run that finds its compactions done needs none.
    fn encoder(&mut self) -> Result<Option<Arc<LlmLingua2>>, RunnerError> {
        if let (None, Some((path, _))) = (&self.encoder, &self.experiment.encoder) {
            let observer = &mut *self.observer;
            let threads = self.experiment.options.threads;
            let model = ModelSpec { path: path.clone(), quantization: None };
            let loaded =
                LlmLingua2::load(path, threads, &mut |done, total| observer.loading(&model, done, total))?;
            *self.encoder = Some(Arc::new(loaded));
        }
        Ok(self.encoder.clone())
    }

    fn compact(&mut self, prepared: &PreparedInstance, batch: &mut Batch) -> Result<(), RunnerError> {
        let experiment = self.experiment;
        for spec in &experiment.config.compact.compactors {
            let key = self.base_key(prepared, spec)?;
            if !spec.extractor {
                batch.cells.push(cell(prepared, &spec.to_string(), "compact".to_owned(), &key));
            }
            let prompt = match spec.prompt_name() {
                Some(name) => Some(Arc::new(NamedSummary::new(experiment.compaction.clone(), name)?)
                    as Arc<dyn SummaryPrompt>),
                None => None,
            };
            // An encoder is not loaded for what is there already.
            if spec.needs_encoder() && self.settle_kept(batch, Step::Compact, &key)? {
                continue;
            }
            let encoder = if spec.needs_encoder() { self.encoder()? } else { None };
            let input = CompactionInput {
                history: prepared.messages.clone(),
                prompt,
                encoder,
                settings: experiment.compact_settings(),
                cutoff: experiment.config.compact.cutoff,
                constraints: None,
            };
            let base = CompactorSpec { kind: spec.kind.clone(), extractor: false };
            match CompactJob::new(&base, input) {
                Ok(job) => {
                    self.add(batch, (Step::Compact, "compact"), &key, || Work::Compact(job))?;
                }
                Err(error) => {
                    self.settle(&key, failed_compaction(&error.to_string()), false)?;
                    batch.settle(1, self.weights.of(Step::Compact));
                }
            }
        }
        Ok(())
    }

    /// Keeps a result that needed no engine of its own.
    fn settle(
        &mut self,
        key: &str,
        result: CompactionResult,
        depends_on_pool: bool,
    ) -> Result<(), RunnerError> {
        if self.sink.get(key)?.is_some() {
            return Ok(());
        }
        let payload = WorkOutput::Compaction(result).to_json();
        let payload = payload.map_err(|source| RunnerError::Payload {
            key: key.to_owned(),
            kind: "compact",
            source,
        })?;
        let (key, kind) = (key.to_owned(), "compact");
        let result = NewResult { key, kind, payload, seconds: 0.0, depends_on_pool };
        Ok(self.sink.put(&result, &[])?)
    }

    /// What a compactor made of an instance; for `+extractor` the base's result with the registry behind it, which is
    /// kept under a key of its own.
    fn compacted(
        &mut self,
        prepared: &PreparedInstance,
        spec: &CompactorSpec,
        batch: &mut Batch,
    ) -> Result<Option<CompactionResult>, RunnerError> {
        let base_key = self.base_key(prepared, spec)?;
        let Some(mut result) = self.load::<CompactionResult>("compact", &base_key)? else { return Ok(None) };
        let Some(prompt) = self.experiment.extraction.clone().filter(|_| spec.extractor) else {
            return Ok(Some(result));
        };
        let extract_key = self.extract_key(prepared, &self.experiment.extract_settings())?;
        let Some(extraction) = self.load::<Extraction>("extract", &extract_key)? else { return Ok(None) };
        let depends_on_pool = was_refused(&result) || extraction_was_refused(&extraction);
        let constraints = prompt.constraints(&extraction.registry);
        if result.failure.is_none() {
            if let (Some(message), Some(tokenizer)) =
                (&constraints.message, self.experiment.compact_tokenizer())
            {
                result.tokens_after += count_tokens(tokenizer, std::slice::from_ref(message))?;
            }
            result.messages.extend(constraints.message);
        }
        let key = self.key("compact", Step::Compact, &("extractor", &base_key, &extract_key, &*prompt))?;
        batch.cells.push(cell(prepared, &spec.to_string(), "compact".to_owned(), &key));
        self.settle(&key, result.clone(), depends_on_pool)?;
        Ok(Some(result))
    }

    fn after_compaction(
        &mut self,
        step: Step,
        prepared: &PreparedInstance,
        batch: &mut Batch,
    ) -> Result<(), RunnerError> {
        let experiment = self.experiment;
        for spec in &experiment.config.compact.compactors {
            let result = self.compacted(prepared, spec, batch)?;
            let Some(result) = result.filter(|result| result.failure.is_none()) else {
                batch.settle(experiment.cells(step), self.weights.of(step));
                continue;
            };
            let compactor = spec.to_string();
            if step == Step::CompactedProbe {
                self.probe(prepared, &compactor, &result.messages, batch)?;
                continue;
            }
            let settings = experiment.judge_settings();
            let messages = experiment.protocol.judge_messages(&prepared.instance.sc_text, &result.messages);
            let key = self.key("judge", Step::Judge, &(&messages, &settings))?;
            batch.cells.push(cell(prepared, &compactor, "judge".to_owned(), &key));
            self.add(batch, (Step::Judge, "judge"), &key, || Work::Judge(JudgeJob::new(messages, settings)))?;
        }
        Ok(())
    }

    fn probe_full(&mut self, prepared: &PreparedInstance, batch: &mut Batch) -> Result<(), RunnerError> {
        self.probe(prepared, "", &[], batch)
    }

    /// Probes under the full-history conditions where `compactor` is empty, else under the others.
    fn probe(
        &mut self,
        prepared: &PreparedInstance,
        compactor: &str,
        compacted: &[Message],
        batch: &mut Batch,
    ) -> Result<(), RunnerError> {
        let Some(table) = &self.experiment.config.probe else { return Ok(()) };
        let settings = self.experiment.config.settings(&table.model, table.max_tokens);
        let full = compactor.is_empty();
        let step = if full { Step::FullProbe } else { Step::CompactedProbe };
        for &condition in
            table.conditions.0.iter().filter(|condition| condition.depends_on_compactor() != full)
        {
            let messages = probe_messages(prepared, condition, compacted);
            if table.mode.generates() {
                let key = self.key("generate", step, &(&messages, &settings))?;
                batch.cells.push(cell(prepared, compactor, format!("generate:{condition}"), &key));
                let (messages, settings) = (messages.clone(), settings.clone());
                self.add(batch, (step, "generate"), &key, || {
                    Work::Generate(GenerateProbe::new(messages, settings))
                })?;
            }
            if table.mode.chooses() {
                let inputs = (&messages, &settings, table.reasoning);
                let key = self.key("choice", step, &inputs)?;
                batch.cells.push(cell(prepared, compactor, format!("choice:{condition}"), &key));
                let (settings, mode) = (settings.clone(), table.reasoning);
                self.add(batch, (step, "choice"), &key, || {
                    Work::Choose(ChoiceProbe::new(messages, settings, mode))
                })?;
            }
        }
        Ok(())
    }
}

impl Experiment {
    pub(super) fn judge_settings(&self) -> GenerationSettings {
        let table = &self.config.judge;
        self.config.settings(&table.model, table.max_tokens)
    }

    fn compact_settings(&self) -> GenerationSettings {
        let table = &self.config.compact;
        self.config.settings(&table.model, table.max_tokens)
    }

    fn extract_settings(&self) -> ExtractSettings {
        let Some(table) = &self.config.extract else { return ExtractSettings::default() };
        let generation = self.config.settings(&table.model, table.max_tokens);
        ExtractSettings { generation, parse: table.parse, ..ExtractSettings::default() }
    }

    fn compact_tokenizer(&self) -> Option<&crate::tokenizer::Tokenizer> {
        let model = self.models.get(&self.config.compact.model)?;
        Some(&self.identities.get(model)?.tokenizer)
    }

    /// Places that one instance fills in a step, for one compactor where the step needs one.
    pub(super) fn cells(&self, step: Step) -> usize {
        match step {
            Step::Labels => 0,
            Step::Extract => usize::from(self.extraction.is_some()),
            Step::FullProbe => self.probe_cells(false),
            Step::Compact | Step::Judge => 1,
            Step::CompactedProbe => self.probe_cells(true),
        }
    }

    /// How many compactors a step runs for: 1 where it does not depend on them.
    pub(super) fn compactors_of(&self, step: Step) -> usize {
        match step {
            Step::Compact | Step::Judge | Step::CompactedProbe => self.config.compact.compactors.len(),
            Step::Labels | Step::Extract | Step::FullProbe => 1,
        }
    }

    fn probe_cells(&self, compacted: bool) -> usize {
        let Some(probe) = &self.config.probe else { return 0 };
        let modes = usize::from(probe.mode.generates()) + usize::from(probe.mode.chooses());
        modes * probe.conditions.0.iter().filter(|c| c.depends_on_compactor() == compacted).count()
    }

    /// Places that one instance fills in all.
    pub(super) fn cells_per_instance(&self) -> usize {
        Step::ALL.into_iter().map(|step| self.cells(step) * self.compactors_of(step)).sum()
    }
}

fn cell(prepared: &PreparedInstance, compactor: &str, role: String, key: &str) -> Cell {
    Cell {
        setting: prepared.setting.clone(),
        ordinal: prepared.ordinal,
        compactor: compactor.to_owned(),
        role,
        key: key.to_owned(),
    }
}

fn failed_compaction(cause: &str) -> CompactionResult {
    CompactionResult {
        messages: Vec::new(),
        tokens_before: 0,
        tokens_after: 0,
        finish_reason: None,
        failure: Some(CompactionFailure::Prompt { message: cause.to_owned() }),
        text: None,
        reasoning: None,
        recoveries: Vec::new(),
        usage: crate::tasks::Usage::default(),
    }
}

/// System, developer, context, probe: the order of the published benchmark.
fn probe_messages(prepared: &PreparedInstance, condition: Condition, compacted: &[Message]) -> Vec<Message> {
    let instance = &prepared.instance;
    let context: &[Message] = match condition {
        Condition::FullWithSc => &prepared.messages,
        Condition::FullWithoutSc => &prepared.messages_without_sc,
        Condition::Compaction | Condition::UpperBound => compacted,
    };
    let probe = match condition {
        Condition::UpperBound => &instance.post_sc_probe_prompt,
        _ => &instance.probe_prompt,
    };
    let mut messages = Vec::with_capacity(context.len() + 3);
    messages.push(Message::text(Role::System, instance.system_prompt.clone()));
    messages.push(Message::text(Role::Developer, instance.developer_prompt.clone()));
    messages.extend_from_slice(context);
    messages.push(Message::text(Role::User, probe.clone()));
    messages
}
