//! The tables of a [`super::RunConfig`].

use crate::compint::{Condition, protocol};
use crate::decode::SamplingParams;
use crate::ops::KvDtype;
use crate::tasks::ReasoningMode;
use crate::tasks::compact::{CompactorSpec, CutoffPolicy};
use crate::tasks::extract::ExtractionParse;
use crate::weights::Quantization;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::marker::PhantomData;
use std::path::PathBuf;

/// `[run]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunTable {
    /// Names the run and its folder.
    pub name: String,
    /// Seeds instances, sampling and the bootstrap.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// The date templates see, `YYYY-MM-DD`; where it is absent, the day the run was created.
    pub date: Option<String>,
    /// The folder runs lie in.
    #[serde(default = "default_output")]
    pub output: PathBuf,
}

fn default_seed() -> u64 {
    42
}

fn default_output() -> PathBuf {
    PathBuf::from("runs")
}

/// `[protocol]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProtocolTable {
    /// Constraints, probes, judge and compaction prompts.
    pub name: String,
    /// The constraints to use, by number; all where it is absent.
    pub constraints: Option<Vec<u32>>,
    /// The protocol whose compaction prompts `llm:PROMPT` names; the one above where it is absent.
    pub compaction_protocol: Option<String>,
    /// The protocol the extraction prompt comes from; the one above where it is absent.
    pub extraction_protocol: Option<String>,
    /// Which of its extraction prompts.
    pub extraction_prompt: String,
}

impl Default for ProtocolTable {
    fn default() -> Self {
        Self {
            name: protocol::BUILT_IN.to_owned(),
            constraints: None,
            compaction_protocol: None,
            extraction_protocol: None,
            extraction_prompt: "default".to_owned(),
        }
    }
}

/// Where a constraint stands and how it is framed: the part that `[haystacks]` and `[history]` share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// `top`, `middle`, `bottom` or `multi`.
    pub position: String,
    /// Turns that state it under `multi`.
    pub repeat: usize,
    /// Framed as important.
    pub strict: bool,
    /// Framed with its scope.
    pub direct: bool,
}

/// `[haystacks]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HaystackTable {
    /// Names the setting's folder; made of length and placement where it is absent.
    pub name: Option<String>,
    /// Haystack files, JSONL or Parquet.
    pub files: Vec<PathBuf>,
    /// Cut each history to at most this many tokens.
    pub length: usize,
    /// The first K haystacks of each file that are long enough.
    pub first: Option<usize>,
    /// See [`Placement`].
    #[serde(default = "default_position")]
    pub position: String,
    /// See [`Placement`].
    #[serde(default = "default_repeat")]
    pub repeat: usize,
    /// See [`Placement`].
    #[serde(default)]
    pub strict: bool,
    /// See [`Placement`].
    #[serde(default = "default_direct")]
    pub direct: bool,
    /// Keep haystacks that are shorter than the length.
    #[serde(default)]
    pub keep_short: bool,
}

/// `[history]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryTable {
    /// Names the setting's folder; the file's name and the placement where it is absent.
    pub name: Option<String>,
    /// A file of any supported format.
    pub file: PathBuf,
    /// The format, where it is not to be recognised.
    pub format: Option<String>,
    /// Which history of a file that holds several, from 0.
    pub index: Option<usize>,
    /// Cut to at most this many tokens, counted by the probing (else compacting) model's tokenizer.
    pub length: Option<usize>,
    /// See [`Placement`].
    #[serde(default = "default_position")]
    pub position: String,
    /// See [`Placement`].
    #[serde(default = "default_repeat")]
    pub repeat: usize,
    /// See [`Placement`].
    #[serde(default)]
    pub strict: bool,
    /// See [`Placement`].
    #[serde(default = "default_direct")]
    pub direct: bool,
}

fn default_position() -> String {
    "top".to_owned()
}

fn default_repeat() -> usize {
    1
}

fn default_direct() -> bool {
    true
}

impl HaystackTable {
    /// Where constraints stand.
    pub fn placement(&self) -> Placement {
        let (position, repeat) = (self.position.clone(), self.repeat);
        Placement { position, repeat, strict: self.strict, direct: self.direct }
    }

    /// The setting's name.
    pub fn setting(&self) -> String {
        let named = || format!("{}-{}", self.length, self.placement().name());
        self.name.clone().unwrap_or_else(named)
    }
}

impl HistoryTable {
    /// Where constraints stand.
    pub fn placement(&self) -> Placement {
        let (position, repeat) = (self.position.clone(), self.repeat);
        Placement { position, repeat, strict: self.strict, direct: self.direct }
    }

    /// The name of the history: its file's, without the extension.
    pub fn id(&self) -> String {
        self.file.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
    }

    /// The setting's name.
    pub fn setting(&self) -> String {
        let length = self.length.map_or_else(String::new, |length| format!("-{length}"));
        let named = || format!("{}{length}-{}", self.id(), self.placement().name());
        self.name.clone().unwrap_or_else(named)
    }
}

impl Placement {
    /// `top`, `multi3`, `bottom-strict-indirect`.
    pub fn name(&self) -> String {
        let repeat = if self.position == "multi" { self.repeat.to_string() } else { String::new() };
        let strict = if self.strict { "-strict" } else { "" };
        let direct = if self.direct { "" } else { "-indirect" };
        format!("{}{repeat}{strict}{direct}", self.position)
    }
}

/// `[models.NAME]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelTable {
    /// A name of `longwick models list`, a path, or `hf:owner/name`.
    pub model: String,
    /// The format that its float weights are quantised to at load, as `--quantize` has it; they stay where it is absent.
    pub quantize: Option<Quantization>,
    /// Whether it reasons first, for templates that have the switch.
    pub thinking: Option<bool>,
    /// How much it reasons, for templates that know it.
    pub reasoning_effort: Option<String>,
    /// Most new tokens, reasoning included; 4096 where neither this nor the role's own says otherwise.
    pub max_tokens: Option<usize>,
    /// How tokens are drawn; greedy where it is absent.
    #[serde(default)]
    pub sampling: SamplingTable,
}

/// `[models.NAME.sampling]`; draws are seeded by the run's seed and the request.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingTable {
    /// 0 is greedy.
    pub temperature: f32,
    /// Keep the K most likely tokens (0: all).
    pub top_k: usize,
    /// Keep the smallest set with this mass.
    pub top_p: f32,
}

impl Default for SamplingTable {
    fn default() -> Self {
        let SamplingParams { temperature, top_k, top_p, .. } = SamplingParams::default();
        Self { temperature, top_k, top_p }
    }
}

impl SamplingTable {
    /// As the engine takes it, with seed 0.
    pub fn params(&self) -> SamplingParams {
        let Self { temperature, top_k, top_p } = *self;
        SamplingParams { temperature, top_k, top_p, seed: 0 }
    }
}

/// `[engine]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EngineTable {
    /// `cpu` (default), `cuda` or `emu`.
    pub device: DeviceName,
    /// Worker threads; all cores where it is absent.
    pub threads: Option<std::num::NonZeroUsize>,
    /// `f32` (default), `bf16` or `fp8`.
    pub kv_dtype: KvDtype,
    /// MiB of the KV pool of each model.
    pub kv_memory_mib: Option<u64>,
    /// Most tokens of one step.
    pub chunk: Option<std::num::NonZeroUsize>,
    /// MiB of weights and pools that loaded models hold together; models are evicted beyond it.
    pub memory_mib: Option<u64>,
    /// Requests under way at once.
    pub in_flight: Option<std::num::NonZeroUsize>,
}

/// Where models run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceName {
    /// The host's processor.
    #[default]
    Cpu,
    /// The first NVIDIA GPU.
    Cuda,
    /// The emulator of the CUDA kernels.
    Emu,
}

/// `[compact]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompactTable {
    /// The model that summarises, and whose tokenizer counts.
    pub model: String,
    /// The encoder of `llmlingua2`.
    pub encoder: Option<String>,
    /// `recent-5`, `llm:anthropic`, `user-turns:800+extractor` and so on.
    pub compactors: Vec<CompactorSpec>,
    /// What becomes of a summary that was cut off.
    #[serde(default)]
    pub cutoff: CutoffPolicy,
    /// Most new tokens in this role.
    pub max_tokens: Option<usize>,
}

/// `[extract]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtractTable {
    /// The model that extracts.
    pub model: String,
    /// How answers are read.
    #[serde(default)]
    pub parse: ExtractionParse,
    /// Most new tokens for one turn.
    pub max_tokens: Option<usize>,
}

/// `[judge]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgeTable {
    /// The model that judges.
    pub model: String,
    /// Contexts that a person labelled: the judge is measured on them first.
    pub labels: Option<PathBuf>,
    /// Most new tokens in this role.
    pub max_tokens: Option<usize>,
}

/// `[probe]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeTable {
    /// The model that is probed.
    pub model: String,
    /// How its choice is read.
    #[serde(default)]
    pub mode: ProbeMode,
    /// Under which contexts.
    #[serde(default)]
    pub conditions: Conditions,
    /// Under `choice`, what a reasoning model does first.
    #[serde(default)]
    pub reasoning: ReasoningMode,
    /// Most new tokens in this role.
    pub max_tokens: Option<usize>,
}

/// How a probe is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProbeMode {
    /// The model writes its answer, as the published benchmark has it.
    #[default]
    Generate,
    /// The letters' log-probabilities are compared; `results.jsonl` then holds the likelier letter as output.
    Choice,
    /// Both; `results.jsonl` holds what was written.
    Both,
}

impl ProbeMode {
    /// Whether answers are written.
    pub fn generates(self) -> bool {
        self != Self::Choice
    }

    /// Whether letters are scored.
    pub fn chooses(self) -> bool {
        self != Self::Generate
    }
}

/// The conditions to probe under, in their usual order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions(pub Vec<Condition>);

impl Default for Conditions {
    fn default() -> Self {
        Self(Condition::ALL.to_vec())
    }
}

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Conditions;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("\"all\" or a list of conditions")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Conditions, E> {
                match text {
                    "all" => Ok(Conditions::default()),
                    other => Err(E::custom(format!(
                        "{other:?} is not \"all\", and a single condition is a list too"
                    ))),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Conditions, A::Error> {
                let mut found = Vec::<Condition>::deserialize(SeqAccessDeserializer::new(seq))?;
                found.sort_unstable();
                found.dedup();
                Ok(Conditions(found))
            }
        }
        deserializer.deserialize_any(Names)
    }
}

/// A table, or an array of such tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Not serde's untagged enum, whose errors do not say what is wrong with the one table.
        struct Tables<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Tables<T> {
            type Value = OneOrMany<T>;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a table or an array of tables")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMany<T>, A::Error> {
                Ok(OneOrMany(vec![T::deserialize(MapAccessDeserializer::new(map))?]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<OneOrMany<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(OneOrMany)
            }
        }
        deserializer.deserialize_any(Tables(PhantomData))
    }
}
