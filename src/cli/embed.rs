//! `longwick embed`: texts to vectors.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::model_args::{ModelArgs, with_load_bar, with_option};
use super::watched::Progress;
use super::{CliError, CliResult, Outcome};
use crate::tasks::embed::{EmbedError, EmbedSettings, Embedder, Embedding, Pooling};

/// A line of input longer than this is refused: a model reads far less of it.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Embed texts.
///
/// Prints one line of JSON a text, in their order: the vector, of Euclidean length one. Encoders (BERT, MiniLM,
/// XLM-RoBERTa) pool as the files beside them say; of a decoder (Qwen3-Embedding) the last token is pooled.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  longwick embed -m all-minilm-l6-v2 'a red boat' 'a crimson ship'
  longwick embed -m all-minilm-l6-v2 --input sentences.txt > vectors.jsonl
  longwick embed -m qwen3-embedding-0.6b --json --prefix 'Instruct: Find the passage that answers the question
Query:' 'Who keeps the lighthouse?'
  cat sentences.txt | longwick embed -m ./my-encoder --pooling mean --input -

--input reads one text a line. Special tokens spelled in a text are read as plain text.")]
pub struct EmbedArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub model: ModelArgs,
    /// The texts
    #[arg(value_name = "TEXT", required_unless_present = "input", conflicts_with = "input")]
    pub texts: Vec<String>,
    /// A file with one text a line; - is standard input
    #[arg(long, value_name = "FILE|-")]
    pub input: Option<PathBuf>,
    /// Put before each text: what a model's card asks for before queries, say
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,
    /// How hidden states become one vector [default: as the model's files have it; last for a decoder]
    #[arg(long, value_enum)]
    pub pooling: Option<PoolingArg>,
    /// Most tokens of a text; what is longer is cut [default: as the model's files have it]
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<usize>,
    /// Print an object a text: index, text, tokens, whether it was cut, embedding
    #[arg(long)]
    pub json: bool,
}

/// A pooling by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PoolingArg {
    /// The mean of all tokens
    Mean,
    /// The first token
    Cls,
    /// The last token
    Last,
}

impl From<PoolingArg> for Pooling {
    fn from(pooling: PoolingArg) -> Self {
        match pooling {
            PoolingArg::Mean => Self::Mean,
            PoolingArg::Cls => Self::Cls,
            PoolingArg::Last => Self::Last,
        }
    }
}

/// A line of `--json`.
#[derive(serde::Serialize)]
struct Row<'a> {
    index: usize,
    text: &'a str,
    #[serde(flatten)]
    embedding: &'a Embedding,
}

/// Embeds and prints.
///
/// # Errors
/// Whatever is wrong with the model, the input or the settings.
pub fn run(args: EmbedArgs) -> CliResult {
    let texts = match &args.input {
        Some(path) => read_lines(path)?,
        None => args.texts.clone(),
    };
    let prefixed: Vec<String> = texts.iter().map(|text| format!("{}{text}", args.prefix)).collect();
    let path = args.model.path()?;
    let options = args.model.engine.options()?;
    let settings = EmbedSettings { pooling: args.pooling.map(Pooling::from), max_tokens: args.max_tokens };
    let mut embedder = with_load_bar(|progress| {
        Embedder::load(&path, options, settings, progress).map_err(|error| match error {
            EmbedError::Engine(error) => with_option(error),
            other => other.into(),
        })
    })?;
    if let Some(report) = embedder.quantization() {
        err_line!("{}: {report}", args.model.model);
    }
    let progress = Progress::new("texts", texts.len());
    let mut cut = 0_usize;
    let result = embedder.embed(&prefixed, &mut |index, embedding| {
        cut += usize::from(embedding.is_cut);
        let line = match args.json {
            true => serde_json::to_string(&Row { index, text: &texts[index], embedding: &embedding }),
            false => serde_json::to_string(&embedding.embedding),
        };
        let line = line.map_err(std::io::Error::from)?;
        progress.print(|| out_line!("{line}"))?;
        progress.advance();
        progress.note(format!("{} tokens in the last one", embedding.tokens));
        Ok(())
    });
    progress.finish();
    result?;
    if cut > 0 {
        eprintln!("longwick: {cut} of {} texts were longer than the model reads, and were cut", texts.len());
    }
    Ok(Outcome::Finished)
}

fn read_lines(path: &Path) -> Result<Vec<String>, CliError> {
    let (name, input): (String, Box<dyn Read>) = match path.as_os_str() == "-" {
        true => ("standard input".to_owned(), Box::new(std::io::stdin())),
        false => {
            let name = path.display().to_string();
            let file = std::fs::File::open(path).map_err(|error| format!("{name}: {error}"))?;
            (name, Box::new(file))
        }
    };
    let mut input = BufReader::new(input);
    let mut lines = Vec::new();
    loop {
        let (mut line, at) = (Vec::new(), lines.len() + 1);
        let read = (&mut input).take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        if read.map_err(|error| format!("{name}, line {at}: {error}"))? == 0 {
            break;
        }
        if line.pop_if(|byte| *byte == b'\n').is_none() && line.len() as u64 == MAX_LINE_BYTES {
            return Err(format!("{name}, line {at}: longer than {MAX_LINE_BYTES} bytes").into());
        }
        line.pop_if(|byte| *byte == b'\r');
        let text = String::from_utf8(line).map_err(|_| format!("{name}, line {at}: not UTF-8"))?;
        lines.push(text);
    }
    if lines.is_empty() {
        return Err(format!("{name}: holds no line").into());
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Wrapper {
        #[command(flatten)]
        args: EmbedArgs,
    }

    #[test]
    fn texts_come_as_arguments_or_from_a_file_but_not_both() {
        let parse = |line: &[&str]| {
            Wrapper::try_parse_from([&["x", "-m", "m"], line].concat()).map(|wrapper| wrapper.args)
        };
        assert_eq!(parse(&["one", "two words"]).unwrap().texts, ["one", "two words"]);
        assert_eq!(parse(&["--input", "-"]).unwrap().input, Some(PathBuf::from("-")));
        assert_eq!(parse(&["t", "--pooling", "cls"]).unwrap().pooling, Some(PoolingArg::Cls));
        assert!(parse(&[]).is_err());
        assert!(parse(&["one", "--input", "f"]).is_err());
        assert!(parse(&["one", "--pooling", "sum"]).is_err());
    }

    #[test]
    fn a_file_is_read_line_by_line_and_what_is_no_text_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("texts");
        std::fs::write(&path, "one\r\n\ntwo").unwrap();
        assert_eq!(read_lines(&path).unwrap(), ["one", "", "two"]);
        std::fs::write(&path, b"one\n\xff\n").unwrap();
        assert!(read_lines(&path).unwrap_err().to_string().ends_with("line 2: not UTF-8"));
        std::fs::write(&path, "").unwrap();
        assert!(read_lines(&path).unwrap_err().to_string().contains("holds no line"));
        assert!(read_lines(&folder.path().join("absent")).is_err());
    }
}
