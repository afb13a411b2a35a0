//! Splitting a model's output into reasoning, tool calls and answer.
use super::{
    ParsedOutput,
    harmony::{HarmonyParser, ParsedMessage, Recovery, StreamStart},
    reasoning::Style,
};
use crate::history::Role;

/// Markers that end a turn; where they stand at the end of an output they are no part of it.
const TURN_ENDS: [&str; 10] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<turn|>",
    "<eos>",
    "</s>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|return|>",
    "<|end|>",
];

/// Splits an output. `reasoning_open` says that the prompt already opened the reasoning, so that the output begins in
/// the middle of it.
pub(super) fn parse(text: &str, style: Style, reasoning_open: bool) -> ParsedOutput {
    match style {
        Style::Harmony => harmony(text, reasoning_open),
        Style::GemmaChannel => tagged(text, ["<|channel>", "<channel|>"], GEMMA_CALLS, reasoning_open),
        Style::ThinkTags | Style::Plain => {
            tagged(text, ["<think>", "</think>"], HERMES_CALLS, reasoning_open)
        }
    }
}

const HERMES_CALLS: [&str; 2] = ["<tool_call>", "</tool_call>"];
const GEMMA_CALLS: [&str; 2] = ["<|tool_call>", "<tool_call|>"];

fn tagged(text: &str, [open, close]: [&str; 2], calls: [&str; 2], reasoning_open: bool) -> ParsedOutput {
    let text = without_turn_ends(text);
    let mut parsed = ParsedOutput::default();
    let mut reasoning: Vec<&str> = Vec::new();
    let mut answer = String::new();
    let mut rest = text;
    if !text.trim_start().starts_with(open) {
        // A closing tag without an opening one: the prompt opened the reasoning, whether or not the caller knows.
        let first_close = text.find(close).filter(|at| text.find(open).is_none_or(|open| *at < open));
        match first_close {
            Some(at) => {
                reasoning.push(&text[..at]);
                rest = &text[at + close.len()..];
            }
            None if reasoning_open => {
                parsed.unfinished_reasoning = true;
                reasoning.push(text);
                rest = "";
            }
            None => {}
        }
    }
    while let Some(at) = rest.find(open) {
        answer.push_str(&rest[..at]);
        let inner = &rest[at + open.len()..];
        match inner.find(close) {
            Some(end) => {
                reasoning.push(&inner[..end]);
                rest = &inner[end + close.len()..];
            }
            None => {
                parsed.unfinished_reasoning = true;
                reasoning.push(inner);
                rest = "";
            }
        }
    }
    answer.push_str(rest);
    // Gemma names the channel in its first line.
    let strip_channel = |text: &str| match open {
        "<|channel>" => text.trim_start().strip_prefix("thought").unwrap_or(text).trim().to_owned(),
        _ => text.trim().to_owned(),
    };
    let reasoning: Vec<String> =
        reasoning.into_iter().map(strip_channel).filter(|text| !text.is_empty()).collect();
    parsed.reasoning = (!reasoning.is_empty()).then(|| reasoning.join("\n"));
    let answer = take_calls(&answer, calls, &mut parsed.tool_calls);
    if !parsed.unfinished_reasoning {
        parsed.answer = answer.trim().to_owned();
    }
    parsed
}

/// Takes the call blocks out; one that was cut off goes to the end of the text.
fn take_calls(text: &str, [open, close]: [&str; 2], calls: &mut Vec<String>) -> String {
    let mut answer = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(open) {
        answer.push_str(rest[..at].trim_end());
        let inner = &rest[at + open.len()..];
        let (call, after) = inner.split_once(close).unwrap_or((inner, ""));
        calls.push(call.trim().to_owned());
        rest = after;
    }
    answer.push_str(rest);
    answer
}

fn without_turn_ends(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some(shorter) = TURN_ENDS.iter().find_map(|marker| text.strip_suffix(marker)) {
        text = shorter.trim_end();
    }
    text
}

/// Splits a Harmony output.
///
/// `analysis` is reasoning, and so is `commentary` to no one; a message to a recipient is a call; of several `final`
/// messages the last counts. An output without a final message and without a call was cut off while it reasoned.
fn harmony(text: &str, reasoning_open: bool) -> ParsedOutput {
    let start = if reasoning_open { StreamStart::Analysis } else { StreamStart::Header };
    let mut parser = HarmonyParser::new(start);
    parser.push(text);
    let (messages, recoveries) = parser.finish();
    let mut parsed = ParsedOutput { recoveries, ..ParsedOutput::default() };
    let mut reasoning: Vec<String> = Vec::new();
    let mut answer: Option<String> = None;
    for ParsedMessage { message, .. } in messages {
        let content = without_turn_ends(&message.content).trim().to_owned();
        if message.author != Role::Assistant.as_str() {
            parsed.recoveries.push(Recovery::ForeignAuthor { author: message.author });
            continue;
        }
        match (message.recipient, message.channel.as_deref()) {
            (Some(recipient), channel) => {
                let channel = channel.map(|channel| format!("<|channel|>{channel}")).unwrap_or_default();
                let kind = message.content_type.map(|kind| format!(" {kind}")).unwrap_or_default();
                parsed.tool_calls.push(format!("to={recipient}{channel}{kind}<|message|>{content}"));
            }
            (None, None | Some("final")) => answer = Some(content),
            (None, Some(_)) if content.is_empty() => {}
            (None, Some(_)) => reasoning.push(content),
        }
    }
    parsed.unfinished_reasoning = answer.is_none() && parsed.tool_calls.is_empty();
    parsed.answer = answer.unwrap_or_default();
    parsed.reasoning = (!reasoning.is_empty()).then(|| reasoning.join("\n"));
    parsed
}
