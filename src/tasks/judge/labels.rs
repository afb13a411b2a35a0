//! Labelled contexts, against which a judge is measured.

use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest line: a compacted context is tens of kilobytes.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// A compacted context, and whether a person found the constraint still stated in it. Other fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetentionLabel {
    /// Names the example, where the file names it.
    #[serde(default)]
    pub id: Option<String>,
    /// The constraint.
    pub sc_text: String,
    /// The compacted context, written out as one text.
    pub compacted: String,
    /// The person's verdict.
    pub human_retained: bool,
}

/// A labels file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// The file cannot be opened or read.
    #[error("cannot read {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is longer than any label.
    #[error("{path}, line {line}: longer than {MAX_LINE_BYTES} bytes")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
    },
    /// A line is no label.
    #[error("{path}, line {line}: {problem}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong, with the field.
        problem: String,
    },
    /// The file has no label.
    #[error("{path} holds no labels")]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// Reads JSONL, one [`RetentionLabel`] a line; blank lines are passed over.
///
/// # Errors
/// [`LabelError`] names the file and the line.
pub fn load_labels(path: &Path) -> Result<Vec<RetentionLabel>, LabelError> {
    let io_error = |source| LabelError::Io { path: path.to_owned(), source };
    let mut reader = BufReader::new(std::fs::File::open(path).map_err(io_error)?);
    let mut labels = Vec::new();
    let mut bytes = Vec::new();
    for line in 1.. {
        bytes.clear();
        let length =
            reader.by_ref().take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut bytes).map_err(io_error)?;
        if length == 0 {
            break;
        }
        if bytes.len() as u64 > MAX_LINE_BYTES {
            return Err(LabelError::TooLong { path: path.to_owned(), line });
        }
        if bytes.trim_ascii().is_empty() {
            continue;
        }
        let label = serde_json::from_slice(&bytes).map_err(|error| LabelError::Damaged {
            path: path.to_owned(),
            line,
            problem: error.to_string(),
        })?;
        labels.push(label);
    }
    if labels.is_empty() {
        return Err(LabelError::Empty { path: path.to_owned() });
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Vec<RetentionLabel>, LabelError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("labels.jsonl");
        std::fs::write(&path, text).unwrap();
        load_labels(&path)
    }

    const LINE: &str = r#"{"sc_text":"s","compacted":"c","human_retained":true,"other":1}"#;

    #[test]
    fn lines_are_labels() {
        let labels = load(&format!("{LINE}\n\n{LINE}")).unwrap();
        let expected =
            RetentionLabel { id: None, sc_text: "s".into(), compacted: "c".into(), human_retained: true };
        assert_eq!(labels, vec![expected.clone(), expected]);
    }

    #[test]
    fn damage_is_named_by_line() {
        for damaged in ["{\"sc_text\":\"s\"}", "{", "\u{1}", "[]"] {
            match load(&format!("{LINE}\n{damaged}\n")) {
                Err(LabelError::Damaged { line: 2, problem, .. }) => assert!(!problem.is_empty()),
                other => panic!("{damaged}: {other:?}"),
            }
        }
        assert!(matches!(load("\n"), Err(LabelError::Empty { .. })));
        assert!(matches!(load_labels(Path::new("/nowhere/labels")), Err(LabelError::Io { .. })));
    }
}
