//! Where instances come from: haystack files and plain histories.

use super::{PlannedInstance, RunnerError};
use crate::compint::config::{HistoryTable, Placement, RunConfig};
use crate::compint::metrics::ResultRow;
use crate::compint::{
    Instance, InstanceBuilder, InstanceError, InstanceOptions, Position, Protocol, select_haystacks,
};
use crate::history::{ContentPart, Format, Haystack, Message, import_history, load_haystacks};
use crate::tokenizer::{SpecialTokens, Tokenizer, TokenizerError};
use std::collections::HashSet;
use std::sync::Arc;

/// All histories of a run, by setting.
pub(super) struct Sources {
    settings: Vec<Setting>,
}

struct Setting {
    name: String,
    options: InstanceOptions,
    files: Vec<SourceFile>,
}

struct SourceFile {
    name: String,
    haystacks: Vec<Haystack>,
    /// The messages with their types, where the file is a plain history; its one haystack is them, flattened.
    typed: Option<Vec<Message>>,
}

/// An instance, ready for the tasks.
pub(super) struct PreparedInstance {
    pub(super) setting: String,
    pub(super) ordinal: usize,
    pub(super) instance: Instance,
    /// The history with the constraint.
    pub(super) messages: Arc<[Message]>,
    /// The history without it.
    pub(super) messages_without_sc: Arc<[Message]>,
}

impl Sources {
    /// Reads all files. `tokenizer` counts the tokens of plain histories.
    pub(super) fn load(
        config: &RunConfig,
        protocol: &Protocol,
        tokenizer: &Tokenizer,
    ) -> Result<Self, RunnerError> {
        let mut settings = Vec::new();
        for table in &config.haystacks.0 {
            let mut files = Vec::new();
            for path in &table.files {
                let all = load_haystacks(path)?;
                let name = path.display().to_string();
                let selection = select_haystacks(&all, table.length, table.first, table.keep_short)
                    .map_err(|source| RunnerError::Instances { file: name.clone(), source })?;
                let haystacks = selection.chosen.into_iter().cloned().collect();
                files.push(SourceFile { name, haystacks, typed: None });
            }
            let options = options(config, &table.placement(), table.length);
            settings.push(Setting { name: table.setting(), options, files });
        }
        for table in &config.history.0 {
            let file = history(table, tokenizer)?;
            let options = options(config, &table.placement(), table.length.unwrap_or(usize::MAX));
            // An uncut history's length is what there is: exports name it.
            let length =
                options.length.min(file.haystacks.iter().map(|haystack| haystack.token_length).sum());
            let options = InstanceOptions { length, ..options };
            settings.push(Setting { name: table.setting(), options, files: vec![file] });
        }
        let sources = Self { settings };
        // Whatever cannot be built is refused before anything runs.
        for setting in &sources.settings {
            for file in &setting.files {
                setting.builder(file, protocol)?;
            }
        }
        Ok(sources)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.settings.iter().map(|setting| setting.name.clone()).collect()
    }

    /// Histories, each once a setting.
    pub(super) fn num_histories(&self) -> usize {
        let files = self.settings.iter().flat_map(|setting| &setting.files);
        files.map(|file| file.haystacks.len()).sum()
    }

    /// One group a history of a setting, made as it is asked for: long histories times many constraints do not fit in
    /// memory at once. `wanted` are the constraints to keep; instances are those of the whole set whatever it is.
    pub(super) fn groups<'a>(
        &'a self,
        protocol: &'a Protocol,
        wanted: Option<&'a HashSet<u32>>,
    ) -> Result<impl Iterator<Item = Vec<PreparedInstance>> + 'a, RunnerError> {
        let mut builders = Vec::new();
        for setting in &self.settings {
            let mut first = 0;
            for file in &setting.files {
                builders.push((setting, file, first, setting.builder(file, protocol)?));
                first += file.haystacks.len();
            }
        }
        let per_haystack = protocol.constraints.len();
        let kept = wanted.map_or(per_haystack, HashSet::len);
        let groups = builders.into_iter().flat_map(move |(setting, file, first, mut builder)| {
            (0..file.haystacks.len()).map(move |index| {
                let built: Vec<Instance> = builder.by_ref().take(per_haystack).collect();
                let is_wanted =
                    |instance: &Instance| wanted.is_none_or(|wanted| wanted.contains(&instance.sc_id));
                let chosen = built.into_iter().filter(is_wanted).enumerate();
                let place = |position: usize| (first + index) * kept + position;
                chosen.map(|(position, instance)| prepare(setting, file, place(position), instance)).collect()
            })
        });
        Ok(groups)
    }

    /// The instances as the sink keeps them.
    pub(super) fn planned<'a>(
        &'a self,
        protocol: &'a Protocol,
        wanted: Option<&'a HashSet<u32>>,
    ) -> Result<impl Iterator<Item = PlannedInstance> + 'a, RunnerError> {
        Ok(self.groups(protocol, wanted)?.flatten().map(|prepared| PlannedInstance {
            row: ResultRow::of(&prepared.instance),
            sc_text: prepared.instance.sc_text,
            setting: prepared.setting,
            ordinal: prepared.ordinal,
        }))
    }
}

impl Setting {
    fn builder<'a>(
        &self,
        file: &'a SourceFile,
        protocol: &'a Protocol,
    ) -> Result<InstanceBuilder<'a>, RunnerError> {
        let haystacks: Vec<&Haystack> = file.haystacks.iter().collect();
        let refused = |source: InstanceError| RunnerError::Instances { file: file.name.clone(), source };
        InstanceBuilder::new(&haystacks, self.options.clone(), protocol).map_err(refused)
    }
}

fn options(config: &RunConfig, placement: &Placement, length: usize) -> InstanceOptions {
    InstanceOptions {
        length,
        // Loading the config checked the name.
        position: Position::buildable(&placement.position).unwrap_or(Position::Top),
        repeat: placement.repeat,
        strict: placement.strict,
        direct: placement.direct,
        seed: config.run.seed,
    }
}

fn history(table: &HistoryTable, tokenizer: &Tokenizer) -> Result<SourceFile, RunnerError> {
    let format: Option<Format> = table.format.as_ref().and_then(|format| format.parse().ok());
    let history = import_history(&table.file, format, table.index)?;
    let count = |text: &str| -> Result<usize, TokenizerError> {
        Ok(tokenizer.encode(text, SpecialTokens::AsText)?.len())
    };
    let haystack = Haystack::from_history(&history, &table.id(), "history", count)?;
    let name = table.file.display().to_string();
    Ok(SourceFile { name, haystacks: vec![haystack], typed: Some(history.messages) })
}

fn prepare(setting: &Setting, file: &SourceFile, ordinal: usize, instance: Instance) -> PreparedInstance {
    let (messages, messages_without_sc) = match &file.typed {
        Some(typed) => {
            let kept = &typed[..instance.messages_without_sc.len().min(typed.len())];
            (inject(kept, &instance).into(), kept.to_vec().into())
        }
        None => (
            instance.messages.iter().map(Message::from).collect(),
            instance.messages_without_sc.iter().map(Message::from).collect(),
        ),
    };
    PreparedInstance { setting: setting.name.clone(), ordinal, instance, messages, messages_without_sc }
}

/// Puts the constraint on a line of its own before the turns that state it, as the flat instance has it.
fn inject(messages: &[Message], instance: &Instance) -> Vec<Message> {
    let mut injected = messages.to_vec();
    for &turn in &instance.sc_message_indices {
        let Some(message) = injected.get_mut(turn) else { continue };
        let constraint = &instance.sc_rendered;
        match message.content.first_mut() {
            Some(ContentPart::Text { text }) => *text = format!("{constraint}\n{text}"),
            _ => message.content.insert(0, ContentPart::Text { text: constraint.clone() }),
        }
    }
    injected
}
