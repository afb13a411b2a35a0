//! [`Bench`]: a scratch folder with a model, histories and a config.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A scratch folder; it is removed with the value.
pub struct Bench {
    folder: tempfile::TempDir,
}

/// The config that tests begin from.
pub const CONFIG: &str = r#"
[run]
name = "tiny"
date = "2026-01-15"
output = "OUTPUT"
[protocol]
constraints = [1, 13]
[haystacks]
files = ["haystacks.jsonl"]
length = 400
[models.tiny]
model = "model"
[engine]
threads = 1
kv_memory_mib = 16
[compact]
model = "tiny"
compactors = ["recent-2", "llm:continuity", "llm:continuity+extractor"]
cutoff = "keep"
max_tokens = 24
[extract]
model = "tiny"
max_tokens = 24
[judge]
model = "tiny"
max_tokens = 8
[probe]
model = "tiny"
mode = "both"
max_tokens = 4
"#;

impl Bench {
    /// A model of `context` tokens, and `haystacks` histories.
    pub fn new(context: usize, haystacks: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        super::tiny::write_model(&folder.path().join("model"), context);
        let rows: Vec<String> = (0..haystacks).map(|index| haystack(index).to_string()).collect();
        std::fs::write(folder.path().join("haystacks.jsonl"), rows.join("\n")).unwrap();
        Self { folder }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a config of that file name, whose runs lie in the folder `output`.
    pub fn config(&self, name: &str, output: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        let output = self.path().join(output).display().to_string();
        std::fs::write(&path, text.replace("OUTPUT", &output)).unwrap();
        path
    }

    /// The command `longwick run CONFIG ARGS`.
    pub fn command(&self, config: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longwick"));
        command.arg("run").arg(config).args(args).stdin(Stdio::null());
        // No file of the machine's own decides anything here.
        command.env("LONGWICK_CACHE", self.path().join("cache")).env("HOME", self.path());
        command
    }

    /// Runs a config to its end.
    pub fn run(&self, config: &Path, args: &[&str]) -> Ended {
        Ended::of(self.command(config, args).output().unwrap())
    }

    /// Runs it with nobody reading what it prints; its exit code.
    pub fn run_unread(&self, config: &Path) -> Option<i32> {
        let mut command = self.command(config, &[]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        child.wait().unwrap().code()
    }

    /// Every exported file of a run by its path below the run's folder.
    pub fn exports(&self, output: &str) -> BTreeMap<String, Vec<u8>> {
        let root = self.path().join(output).join("tiny");
        let mut found = BTreeMap::new();
        collect(&root, &root, &mut found);
        found
    }

    /// The run's database.
    pub fn database(&self, output: &str) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path().join(output).join("tiny/run.sqlite")).unwrap()
    }

    /// What a run recorded of itself when it began.
    pub fn plan(&self, output: &str) -> Value {
        let query = "SELECT value FROM meta WHERE name = 'plan'";
        let plan: String = self.database(output).query_row(query, [], |row| row.get(0)).unwrap();
        serde_json::from_str(&plan).unwrap()
    }

    /// The lines of one exported JSONL file.
    pub fn lines(&self, output: &str, file: &str) -> Vec<Value> {
        let path = self.path().join(output).join("tiny").join(file);
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// How a command ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The two numbers of the prefill line: computed, least.
    pub fn prefill(&self) -> Option<(u64, u64)> {
        let line = self.stdout.lines().find(|line| line.starts_with("prefill: "))?;
        let mut numbers = line.split(|c: char| !c.is_ascii_digit()).filter(|word| !word.is_empty());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// `N of M results (K were there already)`.
    pub fn results(&self) -> (usize, usize, usize) {
        let line = self.stderr.lines().find(|line| line.contains("were there already")).unwrap_or_default();
        let numbers: Vec<usize> = line
            .split(|c: char| !c.is_ascii_digit())
            .filter(|word| !word.is_empty())
            .take(3)
            .map(|word| word.parse().unwrap())
            .collect();
        assert_eq!(numbers.len(), 3, "{}", self.stderr);
        (numbers[0], numbers[1], numbers[2])
    }
}

fn collect(root: &Path, folder: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else if !path.file_name().unwrap().to_string_lossy().starts_with("run.sqlite") {
            let name = path.strip_prefix(root).unwrap().display().to_string();
            found.insert(name, std::fs::read(&path).unwrap());
        }
    }
}

/// Six messages of about 400 bytes in all, different for each index.
fn haystack(index: usize) -> Value {
    let texts = [
        ("user", format!("Please sort the {index} shelves in the cellar by the colour of their boxes.")),
        ("assistant", "Which colour should come first?".to_owned()),
        ("user", format!("Blue, then green. There are {} boxes.", 7 * index + 3)),
        ("assistant", "Then I begin with blue on the lowest shelf.".to_owned()),
        ("user", "And the ones without any colour?".to_owned()),
        ("assistant", format!("They go on shelf {index}, behind the others.")),
    ];
    let counts: Vec<usize> = texts.iter().map(|(_, text)| text.len()).collect();
    let messages: Vec<Value> =
        texts.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
    json!({
        "haystack_id": format!("cellar-{index}"), "source": "cellar", "system_prompt": "You are a helpful assistant.",
        "messages": messages, "message_tokens": counts, "token_length": 400 + counts.iter().sum::<usize>(),
        "source_conversation_count": 1
    })
}
