//! [`Engine`]: its parts, and how it is loaded.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};

use super::identity;
use super::memory::{self, MemoryReport};
use super::persist;
use super::recent::RecentCompletions;
use super::sequence::SequenceState;
use super::{Completion, EngineError, EngineOptions, EngineStats, SequenceId};
use crate::chat::ChatTemplate;
use crate::decode::GrammarFactory;
use crate::kv::disk::{KvDirectory, KvIdentity};
use crate::kv::{KvCache, KvPlan, KvUsage};
use crate::model::{CausalLm, ModelConfig, QuantizationReport, check_device, load_model};
use crate::ops::{self, Backend};
use crate::tokenizer::{Tokenizer, TokenizerError};
use crate::weights::Weights;

/// What turns text into tokens and back.
pub(super) struct TextSide {
    pub tokenizer: Tokenizer,
    pub template: ChatTemplate,
}

/// One model, its cache, and the requests it works on.
pub struct Engine {
    pub(super) model: Box<dyn CausalLm>,
    pub(super) cache: KvCache,
    pub(super) options: EngineOptions,
    pub(super) sequences: HashMap<SequenceId, SequenceState>,
    /// Sequences that hold blocks, oldest first.
    pub(super) running: Vec<SequenceId>,
    /// Sequences that do not, follow-ups before the others, else oldest first.
    pub(super) waiting: VecDeque<SequenceId>,
    pub(super) finished: Vec<Completion>,
    /// The request that answers for all of the same digest.
    pub(super) leaders: HashMap<[u8; 32], SequenceId>,
    /// Who waits for each such request's answer, itself included unless it was cancelled.
    pub(super) askers: HashMap<SequenceId, Vec<SequenceId>>,
    pub(super) digests: HashMap<SequenceId, [u8; 32]>,
    pub(super) recent: RecentCompletions,
    /// The tokenizer and template, or why there are none.
    pub(super) text: Result<TextSide, String>,
    pub(super) grammars: Option<GrammarFactory>,
    pub(super) stats: EngineStats,
    pub(super) backend: Backend,
    pub(super) kv_identity: KvIdentity,
    pub(super) kv_directory: Option<KvDirectory>,
    path: PathBuf,
    skipped: Vec<(String, usize)>,
    quantization: Option<QuantizationReport>,
    model_digest: String,
    last_id: u64,
}

impl Engine {
    /// Loads the model at `path` (a GGUF file or an HF folder). `progress(done, total)` counts bytes on disk.
    ///
    /// A model without a tokenizer loads too, and then takes token ids alone.
    ///
    /// # Errors
    /// Whatever is wrong with the files or the settings, naming the file and the field.
    pub fn load(
        path: &Path,
        options: EngineOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self, EngineError> {
        options.check()?;
        let backend = Backend::open(options.device, options.threads)?;
        let weights = Weights::open(path)?;
        let config = ModelConfig::from_weights(&weights)?;
        check_device(&backend, &config)?;
        let plan = KvPlan::new(&config.layer_kv(), options.block_size, options.kv_dtype)?;
        for group in &plan.groups {
            ops::check_attention(&backend, &group.layout, config.num_heads, group.window)?;
        }
        let quantization = identity::quantization_plan(&weights, &config, &options)?;
        if let Some(plan) = &quantization {
            tracing::info!(path = %path.display(), "{}", plan.report());
        }
        let model = load_model(&weights, &backend, quantization.as_ref(), progress)?;
        let text = match load_text(&weights) {
            Err(EngineError::Tokenizer(missing @ TokenizerError::NoTokenizer { .. })) => {
                Err(missing.to_string())
            }
            other => Ok(other?),
        };
        let num_blocks = memory::num_blocks(
            &plan,
            &options,
            model.config().context_length,
            backend.free_device_memory()?,
        )?;
        let num_slots = memory::num_slots(&plan, &options)?;
        let cache = KvCache::new(&backend, plan, num_blocks, options.prefix_cache)?
            .with_slots(num_slots, options.snapshot_tokens)?;
        let weight_digest = identity::weight_digest(&weights, &options)?;
        let model_digest = identity::digest(&weight_digest, text.as_ref().ok());
        let arithmetic = identity::arithmetic(&backend, &options);
        let kv_identity = persist::kv_identity(weight_digest, model.config(), arithmetic, cache.plan());
        let kv_directory = persist::open_directory(&options, &kv_identity)?;
        Ok(Self {
            model,
            cache,
            options,
            sequences: HashMap::new(),
            running: Vec::new(),
            waiting: VecDeque::new(),
            finished: Vec::new(),
            leaders: HashMap::new(),
            askers: HashMap::new(),
            digests: HashMap::new(),
            recent: RecentCompletions::default(),
            text,
            grammars: None,
            stats: EngineStats::default(),
            backend,
            kv_identity,
            kv_directory,
            path: path.to_owned(),
            skipped: weights.skipped().to_vec(),
            quantization: quantization.map(|plan| plan.report().clone()),
            model_digest,
            last_id: 0,
        })
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// [`EngineError::NoTokenizer`] for a model that came without one.
    pub fn tokenizer(&self) -> Result<&Tokenizer, EngineError> {
        self.text_side().map(|text| &text.tokenizer)
    }

    /// The chat template.
    ///
    /// # Errors
    /// [`EngineError::NoTokenizer`] for a model that came without a tokenizer.
    pub fn template(&self) -> Result<&ChatTemplate, EngineError> {
        self.text_side().map(|text| &text.template)
    }

    fn text_side(&self) -> Result<&TextSide, EngineError> {
        self.text.as_ref().map_err(|reason| EngineError::NoTokenizer {
            path: self.path.display().to_string(),
            reason: reason.clone(),
        })
    }

    /// Builds the grammar factory on first use: the trie over a large vocabulary takes a moment.
    pub(super) fn prepare_grammars(&mut self) -> Result<(), EngineError> {
        if self.grammars.is_none() {
            self.grammars = Some(GrammarFactory::new(self.tokenizer()?)?);
        }
        Ok(())
    }

    /// Parts of the files that a text model does not use (vision towers, say): prefix and number of tensors.
    pub fn skipped(&self) -> &[(String, usize)] {
        &self.skipped
    }

    /// What was quantised at load, and what was left; `None` where nothing was asked for.
    pub fn quantization(&self) -> Option<&QuantizationReport> {
        self.quantization.as_ref()
    }

    /// Shapes and settings of the model.
    pub fn config(&self) -> &ModelConfig {
        self.model.config()
    }

    /// Most tokens of a prompt and its output together.
    pub fn context_length(&self) -> usize {
        self.model.config().context_length
    }

    /// Digest of weights, what they are quantised to at load, tokenizer and template, hex.
    pub fn model_digest(&self) -> &str {
        &self.model_digest
    }

    /// The arithmetic in words: backend and instruction set, KV element type, longwick's version.
    pub fn arithmetic(&self) -> String {
        identity::arithmetic(&self.backend, &self.options)
    }

    /// Whether a result depends on its tokens alone, and not on what is computed beside it.
    pub fn is_batch_invariant(&self) -> bool {
        self.backend.is_batch_invariant()
    }

    /// Worker threads.
    pub fn threads(&self) -> usize {
        self.backend.threads()
    }

    /// What the model and its cache hold in memory.
    pub fn memory(&self) -> MemoryReport {
        let (blocks, slots) = (self.cache.usage().total, self.cache.slot_usage().total);
        MemoryReport::new(self.model.weight_placement(), self.cache.plan(), blocks, slots)
    }

    /// The pool's counters.
    pub fn kv_usage(&self) -> KvUsage {
        self.cache.usage()
    }

    /// Counters of the state slots; all zero for a model without recurrent layers.
    pub fn state_usage(&self) -> KvUsage {
        self.cache.slot_usage()
    }

    /// Counters since loading.
    pub fn stats(&self) -> EngineStats {
        self.stats
    }

    /// Drops a request; its completion will not come. The work goes on while others wait for the same answer.
    pub fn cancel(&mut self, id: SequenceId) {
        self.finished.retain(|completion| completion.id != id);
        let asked = self.askers.iter_mut().find(|(_, askers)| askers.contains(&id));
        let Some((&leader, askers)) = asked else { return };
        askers.retain(|asker| *asker != id);
        if !askers.is_empty() {
            return;
        }
        self.askers.remove(&leader);
        if let Some(digest) = self.digests.remove(&leader) {
            self.leaders.remove(&digest);
        }
        let forks: Vec<SequenceId> = self
            .sequences
            .iter()
            .filter(|(_, sequence)| sequence.continues(leader))
            .map(|(fork, _)| *fork)
            .collect();
        for id in forks.into_iter().chain([leader]) {
            self.remove(id);
        }
    }

    pub(super) fn next_id(&mut self) -> SequenceId {
        self.last_id += 1;
        SequenceId(self.last_id)
    }
}

pub(super) fn load_text(weights: &Weights) -> Result<TextSide, EngineError> {
    let tokenizer = Tokenizer::from_weights(weights)?;
    let template = ChatTemplate::from_weights(weights, &tokenizer)?;
    Ok(TextSide { tokenizer, template })
}
