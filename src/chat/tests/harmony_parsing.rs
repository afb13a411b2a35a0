//! Harmony outputs: as they should be, in pieces, cut off, and broken.
use super::harmony::golden;
use crate::chat::{
    ParsedOutput,
    harmony::{HarmonyParser, ParsedMessage, Recovery, StreamStart},
    parser::parse,
    reasoning::Style,
};

fn read(text: &str, start: StreamStart) -> (Vec<ParsedMessage>, Vec<Recovery>) {
    let mut parser = HarmonyParser::new(start);
    parser.push(text);
    parser.finish()
}

/// Author, recipient, channel, type and content of each message.
fn parts(messages: &[ParsedMessage]) -> Vec<[&str; 5]> {
    messages
        .iter()
        .map(|ParsedMessage { message, .. }| {
            [
                message.author.as_str(),
                message.recipient.as_deref().unwrap_or_default(),
                message.channel.as_deref().unwrap_or_default(),
                message.content_type.as_deref().unwrap_or_default(),
                message.content.as_str(),
            ]
        })
        .collect()
}

#[track_caller]
fn check(text: &str, start: StreamStart, expected: &[[&str; 5]], recoveries: &[Recovery]) {
    let found = read(text, start);
    assert_eq!(parts(&found.0), expected, "{text:?}");
    assert_eq!(found.1, recoveries, "{text:?}");
}

/// A golden file of token ids, with the format's tokens as text and a letter group for each other one.
fn golden_tokens(name: &str) -> Option<String> {
    let word = |id: &str| match id {
        "200002" => "<|return|>".to_owned(),
        "200003" => "<|constrain|>".to_owned(),
        "200005" => "<|channel|>".to_owned(),
        "200006" => "<|start|>".to_owned(),
        "200007" => "<|end|>".to_owned(),
        "200008" => "<|message|>".to_owned(),
        "173781" => "assistant".to_owned(),
        "35644" => "analysis".to_owned(),
        "17196" => "final".to_owned(),
        "316" => " to".to_owned(),
        "28" => "=".to_owned(),
        "3490" => " code".to_owned(),
        other => format!("[{other}]"),
    };
    Some(golden(name)?.split_whitespace().map(word).collect())
}

#[test]
pub(super) fn golden_outputs() {
    if let Some(text) = golden_tokens("simple_reasoning_response") {
        let (messages, recoveries) = read(&text, StreamStart::Header);
        let [thought, answer] = &parts(&messages)[..] else { panic!("{messages:?}") };
        assert_eq!(
            (thought[0], thought[2], answer[0], answer[2]),
            ("assistant", "analysis", "assistant", "final")
        );
        assert!(thought[4].starts_with("[1844][31064]") && thought[4].ends_with("[6052][13]"), "{thought:?}");
        assert_eq!(answer[4], "[17][659][220][17][314][220][19][13]");
        assert!(recoveries.is_empty() && !messages[1].is_complete);
    }
    if let Some(text) = golden_tokens("simple_tool_call") {
        let (messages, recoveries) = read(&text, StreamStart::Header);
        let [_, call] = &parts(&messages)[..] else { panic!("{messages:?}") };
        assert_eq!(call[..4], ["assistant", "[29712][170154]", "analysis", "code"]);
        assert!(recoveries.is_empty());
    }
    if let Some(text) = golden("tool_response_parsing") {
        let told = ["browser.search", "assistant", "commentary", "", "{\"result\": \"https://openai.com/\"}"];
        check(&text, StreamStart::Outside, &[told], &[]);
    }
}

/// The same messages wherever the pieces end, markers included.
#[test]
pub(super) fn pieces_may_end_anywhere() {
    let broken =
        "<|channel|>analysis<|message|>é<|not|> <|<|end|>x<|start|><|channel|>final<|message|>a<|messag";
    for text in golden("streamable_parser").iter().map(String::as_str).chain([broken]) {
        let whole = read(text, StreamStart::Header);
        let characters: Vec<char> = text.chars().collect();
        for size in 1..=13 {
            let mut parser = HarmonyParser::new(StreamStart::Header);
            for piece in characters.chunks(size) {
                parser.push(&piece.iter().collect::<String>());
            }
            assert_eq!(parser.finish(), whole, "pieces of {size}");
        }
    }
    if let Some(text) = golden("streamable_parser") {
        let (messages, recoveries) = read(&text, StreamStart::Header);
        assert!(recoveries.is_empty());
        let heads: Vec<_> = parts(&messages)
            .into_iter()
            .map(|[author, to, channel, kind, _]| [author, to, channel, kind])
            .collect();
        let expected = [
            ["assistant", "", "analysis", ""],
            ["assistant", "browser.search", "commentary", "code"],
            ["browser.search", "assistant", "commentary", ""],
        ];
        assert_eq!(heads, expected);
    }
}

#[test]
fn what_is_being_written_is_told() {
    let mut parser = HarmonyParser::new(StreamStart::Header);
    parser.push("<|channel|>anal");
    assert_eq!(parser.current(), None);
    parser.push("ysis<|message|>Let me<");
    assert_eq!(parser.current(), Some((Some("analysis"), "Let me")));
    parser.push("|en");
    assert_eq!(parser.current(), Some((Some("analysis"), "Let me")));
    parser.push("d|>");
    assert_eq!((parser.current(), parser.messages().len()), (None, 1));
}

#[test]
fn recipients_stand_with_author_or_channel() {
    let call = ["assistant", "functions.tide", "commentary", "<|constrain|>json", "{}"];
    for text in [
        "<|start|>assistant to=functions.tide<|channel|>commentary <|constrain|>json<|message|>{}<|call|>",
        "<|start|>assistant to=functions.tide<|channel|>commentary<|constrain|>json<|message|>{}<|call|>",
        "<|start|>assistant<|channel|>commentary to=functions.tide<|constrain|>json<|message|>{}<|call|>",
    ] {
        check(text, StreamStart::Outside, &[call], &[]);
        check(text.trim_start_matches("<|start|>assistant"), StreamStart::Header, &[call], &[]);
    }
}

#[test]
fn broken_outputs_are_read_and_recorded() {
    use Recovery::{MissingMessageMarker, MissingStart, StrayMarker, UnclosedMessage, UnfinishedHeader};
    let header = StreamStart::Header;
    let said = |channel, content| ["assistant", "", channel, "", content];
    check(
        "<|channel|>commentary Hello<|end|>",
        header,
        &[said("commentary", "Hello")],
        &[MissingMessageMarker],
    );
    let two = [said("analysis", "Hm."), said("final", "Yes.")];
    let body = "<|channel|>analysis<|message|>Hm.";
    for (middle, recovery) in [
        ("<|end|><|channel|>final<|message|>", MissingStart),
        ("<|end|>assistant<|channel|>final<|message|>", MissingStart),
        ("<|channel|>final<|message|>", UnclosedMessage),
        ("<|start|>assistant<|channel|>final<|message|>", UnclosedMessage),
        (
            "<|message|><|end|><|start|>assistant<|channel|>final<|message|>",
            StrayMarker { marker: "<|message|>".into() },
        ),
        (
            "<|end|><|return|><|start|>assistant<|channel|>final<|message|>",
            StrayMarker { marker: "<|return|>".into() },
        ),
        (
            "<|end|><|start|>assistant<|channel|>analysis<|channel|>final<|message|>",
            StrayMarker { marker: "<|channel|>".into() },
        ),
    ] {
        check(&format!("{body}{middle}Yes.<|return|>"), header, &two, &[recovery]);
    }
    let cut = UnfinishedHeader { header: "assistant<|channel|>fin".into() };
    check(&format!("{body}<|end|><|start|>assistant<|channel|>fin"), header, &two[..1], &[cut]);
    // What follows a prompt that wrote the header is content, and nothing is broken.
    check("Yes.<|return|>", header, &[said("", "Yes.")], &[]);
    check("Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.", StreamStart::Analysis, &two, &[]);
}

fn split(text: &str) -> ParsedOutput {
    parse(text, Style::Harmony, false)
}

#[test]
fn of_several_answers_the_last_counts() {
    let text = "<|channel|>final<|message|>No.<|end|><|start|>assistant<|channel|>analysis<|message|>Wait.<|end|>\
        <|start|>assistant<|channel|>final<|message|>Yes.<|return|>";
    let parsed = split(text);
    assert_eq!((parsed.answer.as_str(), parsed.reasoning.as_deref()), ("Yes.", Some("Wait.")));
    assert!(parsed.recoveries.is_empty() && !parsed.unfinished_reasoning);
}

#[test]
fn messages_in_the_name_of_a_tool_are_no_calls() {
    let text = "<|channel|>commentary to=functions.tide<|message|>{}<|call|>\
        <|start|>functions.tide to=assistant<|channel|>commentary<|message|>low<|end|>";
    let parsed = split(text);
    assert_eq!(parsed.tool_calls, ["to=functions.tide<|channel|>commentary<|message|>{}"]);
    assert_eq!(parsed.recoveries, [Recovery::ForeignAuthor { author: "functions.tide".into() }]);
    let kept = serde_json::to_value(&parsed).expect("JSON");
    assert_eq!(kept["recoveries"][0]["foreign_author"]["author"], "functions.tide");
    assert_eq!(serde_json::from_value::<ParsedOutput>(kept).expect("read back"), parsed);
}

/// Whatever order markers and text come in, nothing panics and no text is invented.
#[test]
fn any_output_is_read() {
    let pieces = [
        "<|start|>",
        "<|message|>",
        "<|channel|>",
        "<|end|>",
        "<|call|>",
        "assistant",
        " to=x",
        "final",
        "é",
    ];
    let mut text = String::new();
    for number in 0..9_usize.pow(4) {
        text.clear();
        for place in 0..4 {
            text.push_str(pieces[number / 9_usize.pow(place) % 9]);
        }
        for start in [StreamStart::Header, StreamStart::Analysis, StreamStart::Outside] {
            for ParsedMessage { message, .. } in read(&text, start).0 {
                // Markers that mean nothing where they stand are left out of a content.
                let words = pieces[..5].iter().fold(text.clone(), |text, marker| text.replace(marker, ""));
                assert!(words.contains(message.content.trim()), "{text:?}: {message:?}");
            }
        }
    }
}
