//! [`ResultRow`]: one line of `results.jsonl`.

use crate::compint::{Condition, Instance, Letter, Position, pyjson};
use crate::history::FlatMessage;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What came of one instance under one compactor. Columns and their order are conpact's.
///
/// # Representation
/// The probe columns `<condition>_output` and `<condition>_compliant` stand only where the condition ran; conpact has
/// all four or, judging retention alone, none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultRow {
    /// The instance's id.
    pub id: String,
    /// The dataset of the history.
    pub source: String,
    /// The history.
    pub haystack_id: String,
    /// The length asked for, in tokens.
    pub target_length: usize,
    /// The length there was, in tokens.
    pub token_length: usize,
    /// Where the constraint stood.
    pub position: Position,
    /// How often.
    pub repeat: usize,
    /// Framed as important.
    pub strict: bool,
    /// Framed with its scope.
    pub direct: bool,
    /// The constraint's number.
    pub sc_id: u32,
    /// The constraint's type.
    pub sc_type: String,
    /// The letter of the compliant behaviour.
    pub compliant_letter: Letter,
    /// What the compactor made of the history; empty where it failed.
    pub compacted: Vec<FlatMessage>,
    /// The judge's verdict; `None` where there is none.
    pub retention: Option<bool>,
    /// The probes by [`Condition::index`]; `None` where the condition did not run.
    pub probes: [Option<ProbeAnswer>; 4],
}

/// What the probing model answered under one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// Its text.
    pub output: String,
    /// Whether that is the compliant letter; `None` where it is neither letter.
    pub compliant: Option<bool>,
}

impl ResultRow {
    /// A row that holds the instance's columns, and no result yet.
    pub fn of(instance: &Instance) -> Self {
        Self {
            id: instance.id.clone(),
            source: instance.source.clone(),
            haystack_id: instance.haystack_id.clone(),
            target_length: instance.target_length,
            token_length: instance.token_length,
            position: instance.position,
            repeat: instance.repeat,
            strict: instance.strict,
            direct: instance.direct,
            sc_id: instance.sc_id,
            sc_type: instance.sc_type.clone(),
            compliant_letter: instance.compliant_letter,
            compacted: Vec::new(),
            retention: None,
            probes: [None, None, None, None],
        }
    }

    /// The answer under a condition, where it ran.
    pub fn probe(&self, condition: Condition) -> Option<&ProbeAnswer> {
        self.probes[condition.index()].as_ref()
    }

    /// The line that Python's `json.dumps` gives of the row.
    ///
    /// # Errors
    /// What serde_json says; a row holds nothing that JSON cannot.
    pub fn to_json_line(&self) -> Result<String, serde_json::Error> {
        pyjson::dumps(self)
    }
}

impl Serialize for ResultRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("source", &self.source)?;
        map.serialize_entry("haystack_id", &self.haystack_id)?;
        map.serialize_entry("target_length", &self.target_length)?;
        map.serialize_entry("token_length", &self.token_length)?;
        map.serialize_entry("position", &self.position)?;
        map.serialize_entry("repeat", &self.repeat)?;
        map.serialize_entry("strict", &self.strict)?;
        map.serialize_entry("direct", &self.direct)?;
        map.serialize_entry("sc_id", &self.sc_id)?;
        map.serialize_entry("sc_type", &self.sc_type)?;
        map.serialize_entry("compliant_letter", &self.compliant_letter)?;
        map.serialize_entry("compacted", &self.compacted)?;
        map.serialize_entry("retention", &self.retention)?;
        for condition in Condition::ALL {
            if let Some(answer) = self.probe(condition) {
                map.serialize_entry(&format!("{condition}_output"), &answer.output)?;
                map.serialize_entry(&format!("{condition}_compliant"), &answer.compliant)?;
            }
        }
        map.end()
    }
}

/// The row as JSON has it.
#[derive(Deserialize)]
struct Columns {
    id: String,
    source: String,
    haystack_id: String,
    target_length: usize,
    token_length: usize,
    position: Position,
    repeat: usize,
    strict: bool,
    direct: bool,
    sc_id: u32,
    sc_type: String,
    compliant_letter: Letter,
    compacted: Vec<FlatMessage>,
    retention: Option<bool>,
    full_with_sc_output: Option<String>,
    full_with_sc_compliant: Option<bool>,
    full_without_sc_output: Option<String>,
    full_without_sc_compliant: Option<bool>,
    compaction_output: Option<String>,
    compaction_compliant: Option<bool>,
    upper_bound_output: Option<String>,
    upper_bound_compliant: Option<bool>,
}

impl<'de> Deserialize<'de> for ResultRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let columns = Columns::deserialize(deserializer)?;
        let answer =
            |output: Option<String>, compliant| output.map(|output| ProbeAnswer { output, compliant });
        Ok(Self {
            id: columns.id,
            source: columns.source,
            haystack_id: columns.haystack_id,
            target_length: columns.target_length,
            token_length: columns.token_length,
            position: columns.position,
            repeat: columns.repeat,
            strict: columns.strict,
            direct: columns.direct,
            sc_id: columns.sc_id,
            sc_type: columns.sc_type,
            compliant_letter: columns.compliant_letter,
            compacted: columns.compacted,
            retention: columns.retention,
            probes: [
                answer(columns.full_with_sc_output, columns.full_with_sc_compliant),
                answer(columns.full_without_sc_output, columns.full_without_sc_compliant),
                answer(columns.compaction_output, columns.compaction_compliant),
                answer(columns.upper_bound_output, columns.upper_bound_compliant),
            ],
        })
    }
}
