//! `longwick logits`: next-token log-probabilities of given token ids.

use std::path::{Path, PathBuf};

use super::model_args::ModelArgs;
use super::{CliError, CliResult, Outcome};
use crate::engine::{Request, RequestKind, RequestOutput};

/// Arguments of `longwick logits`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  echo '[1, 2, 3]' > ids.json && longwick logits -m smollm2-135m --tokens ids.json --top 5
  longwick logits -m ./checkpoint --tokens ids.json --top 20 --positions all --chunk 64

Prints {\"positions\": [{\"position\", \"ids\", \"logprobs\"}]}: natural log-probabilities of the token after each position.")]
pub struct LogitsArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// A JSON file: an array of token ids, or an object with `token_ids`
    #[arg(long, value_name = "FILE")]
    tokens: PathBuf,
    /// How many of the most likely tokens to print
    #[arg(long, default_value_t = 20)]
    top: usize,
    /// `last`, `all`, or positions from 0, separated by commas
    #[arg(long, default_value = "last")]
    positions: String,
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with the model, the file or the positions.
pub fn run(args: LogitsArgs) -> CliResult {
    let prompt = read_tokens(&args.tokens)?;
    let positions = parse_positions(&args.positions, prompt.len())?;
    let mut engine = args.model.load_engine()?;
    let kind = RequestKind::Logits { positions, top: args.top };
    let output = engine.run(Request::new(prompt, kind))?.output;
    args.model.say_kv_cache(&engine);
    match output {
        RequestOutput::Logits(positions) => {
            let report = serde_json::json!({ "positions": positions });
            out_line!("{report}")?;
            Ok(Outcome::Finished)
        }
        other => Err(format!("the engine answered with {other:?}").into()),
    }
}

fn read_tokens(path: &Path) -> Result<Vec<u32>, CliError> {
    let name = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
    let ids = value.get("token_ids").unwrap_or(&value);
    let ids: Vec<u32> = serde_json::from_value(ids.clone())
        .map_err(|error| format!("{name}: not a list of token ids: {error}"))?;
    if ids.is_empty() {
        return Err(format!("{name}: the list of token ids is empty").into());
    }
    Ok(ids)
}

fn parse_positions(text: &str, length: usize) -> Result<Vec<usize>, CliError> {
    let mut positions = match text {
        "last" => vec![length.saturating_sub(1)],
        "all" => (0..length).collect(),
        list => list
            .split(',')
            .map(|part| part.trim().parse().map_err(|_| format!("--positions: {part:?} is no position")))
            .collect::<Result<Vec<usize>, String>>()?,
    };
    if let Some(past) = positions.iter().find(|&&position| position >= length) {
        return Err(
            format!("--positions: {past} is past the {length} tokens, which are counted from 0").into()
        );
    }
    positions.sort_unstable();
    positions.dedup();
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_sorted_and_within_the_prompt() {
        assert_eq!(parse_positions("last", 3).unwrap(), [2]);
        assert_eq!(parse_positions("all", 3).unwrap(), [0, 1, 2]);
        assert_eq!(parse_positions("2, 0,2", 3).unwrap(), [0, 2]);
        let error = parse_positions("1,7", 3).unwrap_err().to_string();
        assert!(error.contains("7 is past the 3 tokens"), "{error}");
        assert!(parse_positions("x", 3).is_err());
    }
}
