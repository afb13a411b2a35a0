//! Reading and checking a config.

use super::{ConfigError, HaystackTable, HistoryTable, Placement, RunConfig};
use crate::compint::Position;
use crate::history::Format;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

const MAX_BYTES: u64 = 4 << 20;

impl RunConfig {
    /// Reads and checks a config file, and makes its paths absolute or relative to the current folder.
    ///
    /// # Errors
    /// [`ConfigError`] names the file and the key.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let io = |source| ConfigError::Io { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(io)?.len();
        if bytes > MAX_BYTES {
            return Err(ConfigError::TooLarge { path: path.to_owned(), bytes, limit: MAX_BYTES });
        }
        Self::parse(&std::fs::read_to_string(path).map_err(io)?, path)
    }

    /// As [`Self::load`], of text that was read from `path`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text).map_err(|error| ConfigError::Parse {
            path: path.to_owned(),
            problem: error.to_string().trim_end().to_owned(),
        })?;
        config.file = path.to_owned();
        config.resolve_paths(path.parent().unwrap_or(Path::new("")));
        config.check().map_err(|(field, problem)| ConfigError::Field {
            path: path.to_owned(),
            field,
            problem,
        })?;
        Ok(config)
    }

    fn resolve_paths(&mut self, folder: &Path) {
        let resolve = |path: &mut PathBuf| *path = folder.join(&*path);
        self.haystacks.0.iter_mut().flat_map(|table| &mut table.files).for_each(resolve);
        self.history.0.iter_mut().for_each(|table| resolve(&mut table.file));
        self.judge.labels.iter_mut().for_each(resolve);
        for table in self.models.values_mut() {
            // A name of a manifest stays a name; only what is there beside the config is a path.
            let beside = folder.join(&table.model);
            if beside.exists() {
                table.model = beside.display().to_string();
            }
        }
    }

    fn check(&self) -> Result<(), (String, String)> {
        check_name("run.name", &self.run.name)?;
        if let Some(date) = &self.run.date {
            check_date(date)?;
        }
        if self.haystacks.0.is_empty() && self.history.0.is_empty() {
            return Err(("haystacks".into(), "neither [haystacks] nor [history] is there".into()));
        }
        let mut settings = HashSet::new();
        for (index, table) in self.haystacks.0.iter().enumerate() {
            check_haystacks(&format!("haystacks[{index}]"), table)?;
            check_setting(&format!("haystacks[{index}].name"), table.setting(), &mut settings)?;
        }
        for (index, table) in self.history.0.iter().enumerate() {
            check_history(&format!("history[{index}]"), table)?;
            check_setting(&format!("history[{index}].name"), table.setting(), &mut settings)?;
        }
        self.check_roles()?;
        self.check_models()
    }

    fn check_roles(&self) -> Result<(), (String, String)> {
        if self.compact.compactors.is_empty() {
            return Err(("compact.compactors".into(), "names no compactor".into()));
        }
        let mut seen = HashSet::new();
        for spec in &self.compact.compactors {
            if !seen.insert(spec) {
                return Err(("compact.compactors".into(), format!("{spec} occurs twice")));
            }
        }
        let extracts = self.compact.compactors.iter().any(|spec| spec.extractor);
        if extracts && self.extract.is_none() {
            return Err(("extract".into(), "is missing, and a compactor has +extractor".into()));
        }
        let encodes = self.compact.compactors.iter().any(|spec| spec.needs_encoder());
        if encodes && self.compact.encoder.is_none() {
            return Err(("compact.encoder".into(), "is missing, and a compactor is llmlingua2".into()));
        }
        if self.probe.as_ref().is_some_and(|probe| probe.conditions.0.is_empty()) {
            return Err((
                "probe.conditions".into(),
                "is empty; leave [probe] out to judge retention alone".into(),
            ));
        }
        if self.protocol.constraints.as_ref().is_some_and(Vec::is_empty) {
            return Err(("protocol.constraints".into(), "is empty; leave it out to use all".into()));
        }
        let used = [
            ("compact.model", Some(&self.compact.model)),
            ("compact.encoder", self.compact.encoder.as_ref()),
            ("extract.model", self.extract.as_ref().map(|table| &table.model)),
            ("judge.model", Some(&self.judge.model)),
            ("probe.model", self.probe.as_ref().map(|table| &table.model)),
        ];
        for (field, name) in used {
            let Some(name) = name.filter(|name| !self.models.contains_key(*name)) else { continue };
            let known = self.models.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err((field.into(), format!("{name:?} is none of the [models]: {known}")));
        }
        let limits = [
            ("compact.max_tokens", self.compact.max_tokens),
            ("extract.max_tokens", self.extract.as_ref().and_then(|table| table.max_tokens)),
            ("judge.max_tokens", self.judge.max_tokens),
            ("probe.max_tokens", self.probe.as_ref().and_then(|table| table.max_tokens)),
        ];
        match limits.iter().find(|(_, limit)| *limit == Some(0)) {
            Some((field, _)) => Err(((*field).into(), "0 leaves no room for an answer".into())),
            None => Ok(()),
        }
    }

    fn check_models(&self) -> Result<(), (String, String)> {
        for (name, table) in &self.models {
            if table.max_tokens == Some(0) {
                return Err((format!("models.{name}.max_tokens"), "0 leaves no room for an answer".into()));
            }
            if table.quantize.is_some() && self.compact.encoder.as_ref() == Some(name) {
                let problem = "compact.encoder is this model, and encoders are not quantised";
                return Err((format!("models.{name}.quantize"), problem.into()));
            }
            let checked = table.sampling.params().check();
            checked.map_err(|error| (format!("models.{name}.sampling"), error.to_string()))?;
        }
        Ok(())
    }
}

fn check_haystacks(field: &str, table: &HaystackTable) -> Result<(), (String, String)> {
    if table.files.is_empty() {
        return Err((format!("{field}.files"), "names no file".into()));
    }
    if table.first == Some(0) {
        return Err((format!("{field}.first"), "0 leaves no haystack".into()));
    }
    check_placement(field, &table.placement())
}

fn check_history(field: &str, table: &HistoryTable) -> Result<(), (String, String)> {
    if let Some(Err(error)) = table.format.as_ref().map(|format| format.parse::<Format>()) {
        return Err((format!("{field}.format"), error.to_string()));
    }
    check_placement(field, &table.placement())
}

fn check_placement(field: &str, placement: &Placement) -> Result<(), (String, String)> {
    if Position::buildable(&placement.position).is_none() {
        let known = Position::BUILDABLE.join(", ");
        return Err((format!("{field}.position"), format!("{:?} is none of {known}", placement.position)));
    }
    if placement.position == "multi" && placement.repeat < 2 {
        return Err((
            format!("{field}.repeat"),
            format!("position multi needs 2 or more, got {}", placement.repeat),
        ));
    }
    Ok(())
}

/// Names become folders.
fn check_name(field: &str, name: &str) -> Result<(), (String, String)> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        let problem =
            format!("{name:?} cannot name a folder: letters, digits, '-', '_' and '.', no '.' in front");
        return Err((field.into(), problem));
    }
    Ok(())
}

fn check_setting(field: &str, name: String, seen: &mut HashSet<String>) -> Result<(), (String, String)> {
    check_name(field, &name)?;
    if seen.contains(&name) {
        return Err((field.into(), format!("two settings are called {name:?}; give each a name")));
    }
    seen.insert(name);
    Ok(())
}

fn check_date(date: &str) -> Result<(), (String, String)> {
    let digits = |range: std::ops::Range<usize>| {
        date.get(range)
            .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
    };
    let (year, month, day): (Option<u32>, Option<u32>, Option<u32>) =
        (digits(0..4), digits(5..7), digits(8..10));
    let separated = date.len() == 10 && date.get(4..5) == Some("-") && date.get(7..8) == Some("-");
    match (separated, year, month, day) {
        (true, Some(_), Some(1..=12), Some(1..=31)) => Ok(()),
        _ => Err(("run.date".into(), format!("{date:?} is no date of the form YYYY-MM-DD"))),
    }
}
