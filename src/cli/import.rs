//! `longwick import`: a history file of another tool to longwick's format, or to a haystack row.
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::{CliResult, Outcome, counted};
use crate::{
    history::{self, Format, Haystack, History},
    tokenizer::{SpecialTokens, Tokenizer, TokenizerError},
    weights::{Weights, fetch::resolve_model},
};

const EXAMPLES: &str = "\
Examples:
  See what a file holds, and what would be dropped
      longwick import chat.json --out chat.history.jsonl
  Take the fourth history of a ShareGPT file
      longwick import sharegpt.json --index 3 --out fourth.jsonl
  Make a haystack row to build instances from
      longwick import session.jsonl --haystack --tokenizer tokenizer.json \\
          --id session-1 --source mine --out haystacks.jsonl";

/// Read a history (OpenAI messages, ShareGPT, conpact tables) into longwick's own format.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// The file: JSON, JSONL or Parquet.
    pub file: PathBuf,

    /// Read the file as this format instead of recognising it.
    #[arg(long, value_parser = format_parser())]
    pub format: Option<Format>,

    /// Which history of a file that holds several, from 0.
    #[arg(long, value_name = "I")]
    pub index: Option<usize>,

    /// Where to write; standard output if not given. An existing file is replaced whole; a device or a pipe is
    /// written to directly.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Write a row of conpact's haystacks schema, with the tokens of each message's content.
    /// Tool calls and results become text.
    #[arg(long, requires_all = ["tokenizer", "id", "source"])]
    pub haystack: bool,

    /// The tokenizer that counts: a name of `longwick models list`, a tokenizer.json, a GGUF file, a model folder,
    /// or hf:owner/name.
    #[arg(long, requires = "haystack", value_name = "MODEL")]
    pub tokenizer: Option<String>,

    /// The haystack's id.
    #[arg(long, requires = "haystack")]
    pub id: Option<String>,

    /// The name of the haystack's source.
    #[arg(long, requires = "haystack")]
    pub source: Option<String>,

    /// The system message that probes of this haystack begin with.
    #[arg(long, requires = "haystack", default_value = Haystack::DEFAULT_SYSTEM_PROMPT)]
    pub system_prompt: String,
}

/// Imports the file and writes it; the count of messages and the notes go to standard error.
///
/// # Errors
/// Those of [`history::import_history`], of the tokenizer, and of writing.
pub fn run(args: ImportArgs) -> CliResult {
    let history = history::import_history(&args.file, args.format, args.index)?;
    match args.haystack {
        false => write_out(args.out.as_deref(), &|out| history.write_jsonl(out))?,
        true => {
            let haystack = make_haystack(&args, &history)?;
            write_out(args.out.as_deref(), &|out| haystack.write_jsonl(out))?;
            let left_out = history.num_reasoning_parts();
            let tokens = counted(haystack.token_length, "token");
            eprint!("{tokens} of content; reasoning parts left out: {left_out}; ");
        }
    }
    eprintln!("{}; {}", counted(history.messages.len(), "message"), history.notes);
    Ok(Outcome::Finished)
}

fn format_parser() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name)).try_map(|name| name.parse::<Format>())
}

fn make_haystack(
    args: &ImportArgs,
    history: &History,
) -> Result<Haystack, Box<dyn std::error::Error + Send + Sync>> {
    let (Some(tokenizer), Some(id), Some(source)) = (&args.tokenizer, &args.id, &args.source) else {
        return Err("--haystack needs --tokenizer, --id and --source".into());
    };
    let tokenizer = open_tokenizer(tokenizer)?;
    let count = |text: &str| -> Result<usize, TokenizerError> {
        Ok(tokenizer.encode(text, SpecialTokens::AsText)?.len())
    };
    let mut haystack = Haystack::from_history(history, id, source, count)?;
    haystack.system_prompt.clone_from(&args.system_prompt);
    Ok(haystack)
}

/// A tokenizer.json alone is enough; a model's weights are opened only for a GGUF file.
fn open_tokenizer(name: &str) -> Result<Tokenizer, Box<dyn std::error::Error + Send + Sync>> {
    let path = Path::new(name);
    let in_folder = path.join("tokenizer.json");
    if in_folder.is_file() {
        return Ok(Tokenizer::from_file(&in_folder)?);
    }
    if path.extension().is_some_and(|extension| extension == "json") {
        return Ok(Tokenizer::from_file(path)?);
    }
    Ok(Tokenizer::from_weights(&Weights::open(&resolve_model(name)?)?)?)
}

type WriteTo<'w> = &'w dyn Fn(&mut dyn Write) -> io::Result<()>;

fn write_out(out: Option<&Path>, write: WriteTo<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    match out {
        Some(path) => history::write_atomically(path, write)?,
        None => {
            let mut stdout = io::BufWriter::new(io::stdout().lock());
            match write(&mut stdout).and_then(|()| stdout.flush()) {
                // `longwick import FILE | head` ends the pipe early, and that is no failure.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        import: ImportArgs,
    }

    fn parse(arguments: &[&str]) -> Result<ImportArgs, clap::Error> {
        let arguments = std::iter::once("import").chain(arguments.iter().copied());
        Command::try_parse_from(arguments).map(|command| command.import)
    }

    fn fixture(name: &str) -> String {
        format!("{}/tests/fixtures/histories/{name}", env!("CARGO_MANIFEST_DIR"))
    }

    #[test]
    fn a_haystack_needs_tokenizer_id_and_source() {
        assert!(parse(&["f.json", "--haystack", "--id", "a"]).is_err());
        assert!(parse(&["f.json", "--id", "a"]).is_err());
        let whole = ["f", "--haystack", "--tokenizer", "t.json", "--id", "a", "--source", "s"];
        assert_eq!(parse(&whole).unwrap().system_prompt, Haystack::DEFAULT_SYSTEM_PROMPT);
    }

    #[test]
    fn format_names_are_checked() {
        let args = parse(&["f.json", "--format", "conpact-haystacks"]).unwrap();
        assert_eq!(args.format, Some(Format::ConpactHaystacks));
        let error = parse(&["f.json", "--format", "word"]).unwrap_err().to_string();
        assert!(error.contains("sharegpt"), "{error}");
    }

    #[test]
    fn the_chosen_history_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.jsonl");
        let file = fixture("openai-many.jsonl");
        let out_text = out.to_str().unwrap();
        let args = parse(&[&file, "--index", "1", "--out", out_text]).unwrap();
        assert_eq!(run(args).unwrap(), Outcome::Finished);
        let written = history::import_history(&out, None, None).unwrap();
        assert_eq!(written.messages[0].plain_text(), "Two?");
        let error = run(parse(&[&file, "--out", out_text]).unwrap()).unwrap_err().to_string();
        assert!(error.contains("holds 2 histories"), "{error}");
    }
}
