//! [`ResultSink`]: where a run's results go, one floor up.

use crate::chat::Adaptation;
use crate::compint::Condition;
use crate::compint::metrics::ResultRow;
use crate::engine::EngineStats;
use crate::weights::Quantization;

/// Whatever a sink failed on.
#[derive(Debug, thiserror::Error)]
#[error("the run's results cannot be stored or read")]
pub struct SinkError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// One instance of one setting, in the order of exports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedInstance {
    /// The setting's name.
    pub setting: String,
    /// Its place within the setting, from 0.
    pub ordinal: usize,
    /// The columns that do not depend on results.
    pub row: ResultRow,
    /// The constraint, for the check without a model.
    pub sc_text: String,
}

/// What the run will export.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RunPlan {
    /// Settings, in the config's order.
    pub settings: Vec<String>,
    /// Compactors, in the config's order.
    pub compactors: Vec<String>,
    /// Conditions that are asked for.
    pub conditions: Vec<Condition>,
    /// Whether probes of `results.jsonl` were generated; else they are the likelier letters.
    pub generates: bool,
    /// Whether letters were scored, for `choice.jsonl`.
    pub chooses: bool,
    /// Seeds the bootstrap.
    pub seed: u64,
    /// What computes the results; absent in runs before it was recorded.
    #[serde(default)]
    pub models: Vec<RecordedModel>,
}

/// What a model's results were computed by.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RecordedModel {
    /// Its name in the config.
    pub name: String,
    /// What its float weights are quantised to at load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quantize: Option<Quantization>,
    /// Backend, KV element type, longwick's version.
    pub arithmetic: String,
    /// Whether results depend on their tokens alone, and not on what was computed beside them.
    pub batch_invariant: bool,
}

/// Which result stands where: an instance, a compactor (empty for what serves all) and a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The setting's name.
    pub setting: String,
    /// The instance.
    pub ordinal: usize,
    /// The compactor.
    pub compactor: String,
    /// `extract`, `compact`, `judge`, `generate:CONDITION` or `choice:CONDITION`.
    pub role: String,
    /// The result's key.
    pub key: String,
}

/// A result, to be made durable.
#[derive(Debug, Clone, PartialEq)]
pub struct NewResult {
    /// Digest of all it depends on, hex.
    pub key: String,
    /// What kind of work it was.
    pub kind: &'static str,
    /// The task's output as JSON.
    pub payload: String,
    /// Seconds its requests took; the database alone holds them.
    pub seconds: f64,
    /// Whether it failed by a setting of this machine (a pool too small), so that it is tried again under another one.
    pub depends_on_pool: bool,
}

/// A prompt that an engine was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPrompt {
    /// The load of a model it went to, see [`ResultSink::open_load`].
    pub load: i64,
    /// Digest of prompt and request.
    pub request: [u8; 32],
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// How its messages were adapted to the model's template, so that none was lost.
    pub adaptations: Vec<Adaptation>,
}

/// Keeps results. Each call that writes is durable when it returns.
pub trait ResultSink {
    /// The date the run was created with: `proposed` in a new run, else what was kept. A date that the config names
    /// always holds.
    ///
    /// # Errors
    /// [`SinkError`], as for all methods.
    fn fix_date(&mut self, named: Option<&str>, proposed: &str) -> Result<String, SinkError>;
    /// Replaces the plan; results stay. Results that depend on the pool and were made with another one are dropped.
    ///
    /// # Errors
    /// [`SinkError`].
    fn begin(
        &mut self,
        plan: &RunPlan,
        pool: &str,
        instances: &mut dyn Iterator<Item = PlannedInstance>,
    ) -> Result<(), SinkError>;
    /// The payload of a result.
    ///
    /// # Errors
    /// [`SinkError`].
    fn get(&self, key: &str) -> Result<Option<String>, SinkError>;
    /// Keeps a result, and the prompts given to an engine since the last one.
    ///
    /// # Errors
    /// [`SinkError`].
    fn put(&mut self, result: &NewResult, prompts: &[RecordedPrompt]) -> Result<(), SinkError>;
    /// Says which results stand where.
    ///
    /// # Errors
    /// [`SinkError`].
    fn link(&mut self, cells: &[Cell]) -> Result<(), SinkError>;
    /// A model was loaded; names the load.
    ///
    /// # Errors
    /// [`SinkError`].
    fn open_load(&mut self, model_digest: &str, block_size: usize) -> Result<i64, SinkError>;
    /// Counters of a load, as they now stand.
    ///
    /// # Errors
    /// [`SinkError`].
    fn update_load(&mut self, load: i64, stats: &EngineStats) -> Result<(), SinkError>;
}
