//! [`RunConfig`]: what `longwick run` reads, a TOML file.
//!
//! Paths of haystacks, histories, labels and models are relative to the file; the output folder is relative to the
//! current one. Unknown keys are refused.

mod error;
mod load;
mod tables;
#[cfg(test)]
mod tests;

pub use error::ConfigError;
pub use tables::{
    CompactTable, Conditions, DeviceName, EngineTable, ExtractTable, HaystackTable, HistoryTable, JudgeTable,
    ModelTable, OneOrMany, Placement, ProbeMode, ProbeTable, ProtocolTable, RunTable, SamplingTable,
};

use crate::tasks::GenerationSettings;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// An experiment: histories, constraints, compactors, and the models that do the work.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// The file it was read from, as errors and messages name it.
    #[serde(skip)]
    pub file: PathBuf,
    /// Name, seed, date, output.
    pub run: RunTable,
    /// Constraints and prompts.
    #[serde(default)]
    pub protocol: ProtocolTable,
    /// Haystack files, each with one placement of the constraint.
    #[serde(default)]
    pub haystacks: OneOrMany<HaystackTable>,
    /// Plain history files, each with one placement of the constraint.
    #[serde(default)]
    pub history: OneOrMany<HistoryTable>,
    /// Models by the names that the other tables use.
    pub models: BTreeMap<String, ModelTable>,
    /// How models run.
    #[serde(default)]
    pub engine: EngineTable,
    /// The compactors.
    pub compact: CompactTable,
    /// What `+extractor` needs.
    pub extract: Option<ExtractTable>,
    /// The retention judge.
    pub judge: JudgeTable,
    /// The probe; without it retention alone is judged.
    pub probe: Option<ProbeTable>,
}

impl RunConfig {
    /// The model table of that name. Loading checked that every name used has one.
    pub fn model(&self, name: &str) -> Option<&ModelTable> {
        self.models.get(name)
    }

    /// How the named model generates in one role, whose own limit of new tokens comes first.
    pub fn settings(&self, model: &str, max_tokens: Option<usize>) -> GenerationSettings {
        let defaults = GenerationSettings::default();
        let Some(table) = self.model(model) else { return defaults };
        let mut sampling = table.sampling.params();
        if sampling.temperature > 0.0 {
            sampling.seed = self.run.seed;
        }
        GenerationSettings {
            max_tokens: max_tokens.or(table.max_tokens).unwrap_or(defaults.max_tokens),
            sampling,
            thinking: table.thinking,
            reasoning_effort: table.reasoning_effort.clone(),
        }
    }

    /// `OUTPUT/NAME`.
    pub fn folder(&self) -> PathBuf {
        self.run.output.join(&self.run.name)
    }
}
