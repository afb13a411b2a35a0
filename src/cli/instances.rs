//! `longwick instances`: histories crossed with constraints, as JSONL.

use super::{CliResult, Outcome, counted};
use crate::compint::{InstanceBuilder, InstanceOptions, Position, Protocol, protocol, select_haystacks};
use crate::history::{load_haystacks, write_atomically};
use std::io::{self, Write};
use std::path::PathBuf;

/// Build benchmark instances: cut each haystack to a length and put every constraint of the protocol into it.
///
/// Output is JSONL in conpact's Instance schema; under --protocol conpact-0.1.0 it equals conpact's own, byte for byte.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  longwick instances --haystacks chat.jsonl --length 3000 --out instances.jsonl
  longwick instances --haystacks agent.jsonl --length 64000 --first 10 --position middle --strict
  longwick instances --haystacks chat.parquet --length 100000 --position multi --repeat 3 --protocol conpact-0.1.0

Make a haystack of your own history with: longwick import FILE --haystack")]
pub struct InstancesArgs {
    /// Haystacks, JSONL or Parquet: messages with their token counts.
    #[arg(long, value_name = "FILE")]
    pub haystacks: PathBuf,
    /// Cut each history at the last message that fits this many tokens; shorter haystacks are skipped.
    #[arg(long, value_name = "N")]
    pub length: usize,
    /// Use the first K haystacks that are long enough [default: all].
    #[arg(long, value_name = "K", value_parser = positive)]
    pub first: Option<usize>,
    /// The user turn that states the constraint: the first, the median, the last, or several.
    #[arg(long, default_value = "top", value_parser = Position::BUILDABLE)]
    pub position: String,
    /// How many user turns state it; 2 or more under --position multi, else without effect.
    #[arg(long, value_name = "R", default_value_t = 1)]
    pub repeat: usize,
    /// Begin the constraint with "This is an important constraint:".
    #[arg(long)]
    pub strict: bool,
    /// Leave out "For the rest of this session."
    #[arg(long)]
    pub no_direct: bool,
    /// Seeds the order of the options and, under multi, the choice of turns.
    #[arg(long, value_name = "S", default_value_t = 42)]
    pub seed: u64,
    /// Whose constraints and probes: built in, or fetched by scripts/fetch_protocol.sh.
    #[arg(long, value_name = "NAME", default_value = protocol::BUILT_IN)]
    pub protocol: String,
    /// Keep haystacks that are shorter than the length.
    #[arg(long)]
    pub keep_short: bool,
    /// Write here instead of standard output; the file appears whole or not at all.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".to_owned()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

/// Builds and writes the instances; one line on standard error says how many.
///
/// # Errors
/// What reading the haystacks, the protocol or the options refuses, or writing.
pub fn run(args: InstancesArgs) -> CliResult {
    let protocol = Protocol::load(&args.protocol)?;
    let haystacks = load_haystacks(&args.haystacks)?;
    let selection = select_haystacks(&haystacks, args.length, args.first, args.keep_short)?;
    let options = InstanceOptions {
        length: args.length,
        position: Position::buildable(&args.position)
            .ok_or_else(|| format!("no position {:?}", args.position))?,
        repeat: args.repeat,
        strict: args.strict,
        direct: !args.no_direct,
        seed: args.seed,
    };
    let builder = InstanceBuilder::new(&selection.chosen, options, &protocol)?;
    let count = builder.size_hint().0;
    match &args.out {
        Some(path) => write_atomically(path, |out| write_lines(builder, out))?,
        None => {
            let mut out = io::BufWriter::new(io::stdout().lock());
            match write_lines(builder, &mut out).and_then(|()| out.flush()) {
                // A reader that has seen enough, as `head` has, is no failure.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(Outcome::Finished);
                }
                written => written?,
            }
        }
    }
    let skipped = match selection.too_short {
        0 => String::new(),
        some => format!("; {some} shorter than {} tokens skipped", args.length),
    };
    let haystacks = counted(selection.chosen.len(), "haystack");
    eprintln!("{} of {haystacks} under {}{skipped}", counted(count, "instance"), protocol.name);
    Ok(Outcome::Finished)
}

fn write_lines(builder: InstanceBuilder<'_>, out: &mut dyn Write) -> io::Result<()> {
    for instance in builder {
        writeln!(out, "{}", instance.to_json_line()?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Wrapper {
        #[command(flatten)]
        args: InstancesArgs,
    }

    fn parse(line: &str) -> Result<InstancesArgs, clap::Error> {
        Wrapper::try_parse_from(std::iter::once("instances").chain(line.split(' ')))
            .map(|wrapper| wrapper.args)
    }

    fn haystack(id: &str, token_length: usize) -> String {
        format!(
            r#"{{"haystack_id":"{id}","source":"mine","system_prompt":"s","messages":[{{"role":"user","content":"é"}},{{"role":"assistant","content":"b"}}],"message_tokens":[3,{}],"token_length":{token_length},"source_conversation_count":1}}"#,
            token_length - 3
        )
    }

    #[test]
    fn writes_one_line_an_instance_and_skips_short_haystacks_before_counting() {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("h.jsonl"), folder.path().join("out.jsonl"));
        std::fs::write(&input, [haystack("short", 4), haystack("long", 9), haystack("more", 9)].join("\n"))
            .unwrap();
        let line = |more: &str| {
            format!("--haystacks {} --length 5 --out {}{more}", input.display(), output.display())
        };
        run(parse(&line(" --first 1")).unwrap()).unwrap();
        let text = std::fs::read_to_string(&output).unwrap();
        assert_eq!(15, text.lines().count());
        assert!(text.starts_with(
            r#"{"id": "long:sc01", "source": "mine", "haystack_id": "long", "target_length": 5, "#
        ));
        assert!(text.is_ascii());
        run(parse(&line(" --keep-short")).unwrap()).unwrap();
        assert!(std::fs::read_to_string(&output).unwrap().starts_with(r#"{"id": "short:sc01""#));

        let kept = std::fs::read_to_string(&output).unwrap();
        let refusal = run(parse(&line(" --position multi")).unwrap()).unwrap_err();
        assert!(refusal.to_string().contains("repeat of 2 or more"), "{refusal}");
        assert_eq!(kept, std::fs::read_to_string(&output).unwrap());
        let absent = run(parse(&line(" --protocol no-such")).unwrap()).unwrap_err();
        assert!(absent.to_string().contains("fetch_protocol.sh"), "{absent}");
    }

    #[test]
    fn refuses_unknown_positions_and_no_haystacks() {
        assert!(parse("--haystacks a --length 5 --position native").is_err());
        assert!(parse("--haystacks a --length 5 --first 0").is_err());
        assert!(parse("--haystacks a").is_err());
    }
}
