//! [`Experiment`]: a config with everything it names.

use super::phases::{Phase, Step, phases};
use super::sources::Sources;
use super::{RecordedModel, RunnerError};
use crate::compint::Protocol;
use crate::compint::config::{DeviceName, RunConfig};
use crate::compint::protocol::ExtractionPrompt;
use crate::engine::{EncoderIdentity, EngineOptions, KvDirectoryOptions, ModelIdentity, ModelSpec};
use crate::ops::DeviceChoice;
use crate::tasks::judge::{RetentionLabel, load_labels};
use crate::weights::fetch::resolve_model;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// A config whose protocols, histories and models were found and read; weights are not loaded yet.
pub struct Experiment {
    pub(super) config: RunConfig,
    pub(super) protocol: Arc<Protocol>,
    pub(super) compaction: Arc<Protocol>,
    pub(super) extraction: Option<Arc<ExtractionPrompt>>,
    pub(super) constraints: Option<HashSet<u32>>,
    pub(super) sources: Sources,
    pub(super) labels: Vec<RetentionLabel>,
    pub(super) options: EngineOptions,
    /// Names in the config to models, and models to what they are.
    pub(super) models: BTreeMap<String, ModelSpec>,
    pub(super) identities: BTreeMap<ModelSpec, ModelIdentity>,
    /// The encoder of `llmlingua2`, where a compactor is one.
    pub(super) encoder: Option<(PathBuf, EncoderIdentity)>,
}

impl Experiment {
    /// Reads all that the config names. Weight files are hashed, not loaded.
    ///
    /// # Errors
    /// [`RunnerError`] for what is absent, damaged, or cannot be built.
    pub fn prepare(config: RunConfig) -> Result<Self, RunnerError> {
        let protocol = Arc::new(Protocol::load(&config.protocol.name)?);
        let other = |name: &Option<String>| match name {
            Some(name) if *name != config.protocol.name => Protocol::load(name).map(Arc::new),
            _ => Ok(protocol.clone()),
        };
        let compaction = other(&config.protocol.compaction_protocol)?;
        for name in config.compact.compactors.iter().filter_map(|spec| spec.prompt_name()) {
            compaction.compaction_prompt(name, &[])?;
        }
        let extracts = config.compact.compactors.iter().any(|spec| spec.extractor);
        let extraction = match extracts {
            true => {
                let source = other(&config.protocol.extraction_protocol)?;
                Some(Arc::new(source.extraction_prompt(&config.protocol.extraction_prompt)?.clone()))
            }
            false => None,
        };
        let constraints = wanted_constraints(&config, &protocol)?;
        let labels = match &config.judge.labels {
            Some(path) => load_labels(path)?,
            None => Vec::new(),
        };
        let options = engine_options(&config);
        let (mut models, mut identities) = (BTreeMap::new(), BTreeMap::new());
        for name in used_models(&config, extracts) {
            let Some(table) = config.model(name) else { continue };
            let path = resolve_model(&table.model)
                .map_err(|source| RunnerError::Model { name: name.to_owned(), source: Box::new(source) })?;
            let model = ModelSpec { path, quantization: table.quantize };
            if !identities.contains_key(&model) {
                let options = EngineOptions { quantization: model.quantization, ..options.clone() };
                identities.insert(model.clone(), ModelIdentity::read(&model.path, &options)?);
            }
            models.insert(name.to_owned(), model);
        }
        let encoder = match config.compact.compactors.iter().any(|spec| spec.needs_encoder()) {
            true => read_encoder(&config, &options)?,
            false => None,
        };
        let counting = config.probe.as_ref().map_or(&config.compact.model, |probe| &probe.model);
        let tokenizer = &identities[&models[counting]].tokenizer;
        let sources = Sources::load(&config, &protocol, tokenizer)?;
        Ok(Self {
            config,
            protocol,
            compaction,
            extraction,
            constraints,
            sources,
            labels,
            options,
            models,
            identities,
            encoder,
        })
    }

    /// Has engines keep computed prompts in a folder, for later runs on the same histories.
    pub fn keep_prefixes(&mut self, folder: Option<KvDirectoryOptions>) {
        self.options.kv_directory = folder;
    }

    /// The config.
    pub fn config(&self) -> &RunConfig {
        &self.config
    }

    /// The name of the model that does a step; `None` where the step is not asked for.
    pub(super) fn model_of(&self, step: Step) -> Option<&str> {
        let config = &self.config;
        let probe = config.probe.as_ref();
        let asks = |compacted: bool| {
            probe.filter(|probe| probe.conditions.0.iter().any(|c| c.depends_on_compactor() == compacted))
        };
        match step {
            Step::Labels => (!self.labels.is_empty()).then_some(&config.judge.model),
            Step::Extract => self.extraction.as_ref().and(config.extract.as_ref()).map(|table| &table.model),
            Step::Compact => Some(&config.compact.model),
            Step::Judge => Some(&config.judge.model),
            Step::FullProbe => asks(false).map(|probe| &probe.model),
            Step::CompactedProbe => asks(true).map(|probe| &probe.model),
        }
        .map(String::as_str)
    }

    /// Steps by model, in the order they are done.
    pub(super) fn phases(&self) -> Vec<Phase<ModelSpec>> {
        let model = |step: Step| Some((step, self.models.get(self.model_of(step)?)?.clone()));
        let steps: Vec<(Step, ModelSpec)> = Step::ALL.into_iter().filter_map(model).collect();
        phases(&steps)
    }

    /// What each model's results are computed by.
    pub(super) fn recorded_models(&self) -> Vec<RecordedModel> {
        let recorded = |(name, model): (&String, &ModelSpec)| {
            let identity = self.identities.get(model)?;
            let arithmetic = identity.arithmetic.clone();
            Some(RecordedModel {
                name: name.clone(),
                quantize: model.quantization,
                arithmetic,
                batch_invariant: identity.is_batch_invariant,
            })
        };
        self.models.iter().filter_map(recorded).collect()
    }

    /// Instances of all settings.
    pub fn num_instances(&self) -> usize {
        let per_history = self.constraints.as_ref().map_or(self.protocol.constraints.len(), HashSet::len);
        self.sources.num_histories() * per_history
    }
}

fn read_encoder(
    config: &RunConfig,
    options: &EngineOptions,
) -> Result<Option<(PathBuf, EncoderIdentity)>, RunnerError> {
    // Loading the config checked that there is one.
    let Some(name) = &config.compact.encoder else { return Ok(None) };
    let Some(table) = config.model(name) else { return Ok(None) };
    let path = resolve_model(&table.model)
        .map_err(|source| RunnerError::Model { name: name.to_owned(), source: Box::new(source) })?;
    let identity = EncoderIdentity::read(&path, options.threads)?;
    Ok(Some((path, identity)))
}

fn wanted_constraints(config: &RunConfig, protocol: &Protocol) -> Result<Option<HashSet<u32>>, RunnerError> {
    let Some(ids) = &config.protocol.constraints else { return Ok(None) };
    let known: Vec<u32> = protocol.constraints.iter().map(|constraint| constraint.id).collect();
    if let Some(&id) = ids.iter().find(|id| !known.contains(id)) {
        return Err(RunnerError::UnknownConstraint {
            file: config.file.display().to_string(),
            protocol: protocol.name.clone(),
            id,
            known: known.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        });
    }
    Ok(Some(ids.iter().copied().collect()))
}

fn used_models(config: &RunConfig, extracts: bool) -> impl Iterator<Item = &str> {
    let extract = config.extract.as_ref().filter(|_| extracts).map(|table| &table.model);
    let probe = config.probe.as_ref().map(|table| &table.model);
    let all = [Some(&config.compact.model), extract, Some(&config.judge.model), probe];
    all.into_iter().flatten().map(String::as_str)
}

fn engine_options(config: &RunConfig) -> EngineOptions {
    let table = &config.engine;
    let defaults = EngineOptions::default();
    EngineOptions {
        device: match table.device {
            DeviceName::Cpu => DeviceChoice::Cpu,
            DeviceName::Cuda => DeviceChoice::Cuda { ordinal: 0 },
            DeviceName::Emu => DeviceChoice::Emu,
        },
        threads: table.threads,
        kv_dtype: table.kv_dtype,
        kv_pool_bytes: table.kv_memory_mib.map(|mib| mib.saturating_mul(1 << 20)),
        max_batch_tokens: table.chunk.map_or(defaults.max_batch_tokens, usize::from),
        ..defaults
    }
}
