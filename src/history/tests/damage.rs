//! Damaged text files: a typed error with file, line and field, never a panic.
use proptest::prelude::*;

use super::{fixture, scratch};
use crate::history::*;

fn error_of(bytes: &[u8]) -> ImportError {
    let (_folder, path) = scratch(bytes);
    import_path(&path, None).expect_err("damaged")
}

/// The error's text, without the path in front of it.
fn message_of(bytes: &[u8]) -> String {
    let text = error_of(bytes).to_string();
    text.split_once("history: ").unwrap().1.to_owned()
}

#[test]
fn damage_is_named_with_its_place() {
    let cases: [(&[u8], &str); 22] = [
        (b"", "the file is empty"),
        (b" \r\n\n", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"[]", "the file holds no message"),
        (br#"{"messages": []}"#, "openai file without a single message"),
        (b"hello", "line 1: no supported format has text that begins \"hello\""),
        (b"\xff\xfe[\0]\0", "this is UTF-16 text"),
        (b"\x1f\x8b\x08", "this is gzip-compressed data"),
        (br#"{"a": 1}"#, "line 1: no supported format has an object with the fields [a]"),
        (br#"[{"role": "user", "content": "x"}"#, "line 1, column 33: EOF while parsing a list"),
        (b"{\"role\": \"user\", \"content\": \"x\"}\n{\"role\": \"us", "line 2, column 12: EOF"),
        (b"{\n \"messages\": [\n {\"role\": \"user\"", "line 3, column 16: EOF"),
        (
            b"{\"role\": \"user\", \"content\": \"\\ud83d\"}",
            "line 1, column 36: unexpected end of hex escape",
        ),
        (b"{\"role\": \"user\", \"content\": \"\xc3\x28\"}", "line 1, column 30: invalid unicode code point"),
        (br#"{"role": "user", "content": 1e999}"#, "line 1, column 33: number out of range"),
        (b"\n{\"role\": \"user\",\n \"role\": \"tool\"}", "line 3: key \"role\" stands twice in one object"),
        (
            br#"[{"role": "user", "content": 7}]"#,
            "element 0: field `content`: expected a string, a list of parts or null, found the number 7",
        ),
        (
            br#"{"messages": [{"role": "user", "content": [{"type": "text"}]}]}"#,
            "line 1: field `messages[0].content[0].text`: expected a string, found nothing",
        ),
        (
            br#"{"messages": [{"role": "user"}, 3]}"#,
            "line 1: field `messages[1]`: expected an object with `role` and `content`, found the number 3",
        ),
        (
            br#"{"messages": [{"role": "assistant", "tool_calls": [{"function": {}}]}]}"#,
            "field `messages[0].tool_calls[0].function.name`: expected a string, found nothing",
        ),
        (
            br#"{"conversations": [{"from": "human", "value": []}]}"#,
            "field `conversations[0].value`: expected a string, found an array of 0",
        ),
        (
            b"{\"messages\": [{\"role\": \"user\"}]}\n{\"text\": 1}",
            "line 2: field `messages`: expected a list of messages, found an object with the fields [text]",
        ),
    ];
    for (bytes, expected) in cases {
        let message = message_of(bytes);
        assert!(message.starts_with(expected) || message.contains(expected), "{message}\nnot\n{expected}");
    }
}

#[test]
fn nesting_is_limited() {
    let deep = |levels: usize| {
        let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        format!(r#"{{"role": "user", "content": "x", "extra": {nested}}}"#)
    };
    // The record is a level of its own.
    let (_folder, path) = scratch(deep(99).as_bytes());
    assert_eq!(import_path(&path, None).unwrap().histories[0].messages.len(), 1);
    for levels in [100, 200, 1_000_000] {
        let error = error_of(deep(levels).as_bytes());
        assert!(matches!(error, ImportError::TooDeep { limit: 100, line: 1, .. }), "{error}");
    }
    let error = error_of("[".repeat(3_000_000).as_bytes());
    assert!(matches!(error, ImportError::TooDeep { .. }), "{error}");
}

#[test]
fn the_number_of_values_is_limited() {
    let numbers = "0,".repeat(4_000_000);
    let line = format!(r#"{{"role": "user", "content": "x", "extra": [{numbers}0]}}"#);
    let error = error_of(line.as_bytes());
    assert!(matches!(error, ImportError::TooLarge { limit: 4_000_000, .. }), "{error}");
}

#[test]
fn notes_stay_small_whatever_the_names() {
    let fields: Vec<String> = (0..5000).map(|i| format!(r#""{}{i}": 1"#, "f".repeat(90))).collect();
    let line = format!(r#"{{"role": "user", "content": "x", {}}}"#, fields.join(", "));
    let (_folder, path) = scratch(line.as_bytes());
    let notes = import_history(&path, None, None).unwrap().notes.to_string();
    assert!(notes.len() < 2500, "{}", notes.len());
    assert_eq!(notes.lines().count(), 1);
}

#[test]
fn wrong_haystacks_are_refused() {
    let source = std::fs::read_to_string(fixture("haystacks.jsonl")).unwrap();
    let first = source.lines().next().unwrap();
    let cases = [
        (
            "\"token_length\": 32",
            "\"token_length\": -1",
            "line 1: field `token_length`: expected an integer of 0 to 4294967295, found the number -1",
        ),
        ("\"token_length\": 32", "\"token_length\": 99999999999999999999", "field `token_length`"),
        (
            "\"message_tokens\": [9, ",
            "\"message_tokens\": [",
            "field `message_tokens`: expected one count a message, found 4 counts for 5 messages",
        ),
        ("\"message_tokens\": [9, ", "\"message_tokens\": [1.5, ", "field `message_tokens[0]`"),
        ("\"source\": \"fixture\", ", "", "field `source`: expected a string, found nothing"),
        ("\"role\": \"user\"", "\"role\": null", "field `messages[0].role`: expected a string, found null"),
    ];
    for (from, to, expected) in cases {
        assert!(first.contains(from), "{from} is not in {first}");
        let (_folder, path) = scratch(first.replacen(from, to, 1).as_bytes());
        let error = load_haystacks(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_missing_file_is_an_io_error() {
    let error = import_path(&fixture("no-such-file.json"), None).unwrap_err();
    assert!(matches!(error, ImportError::Io { .. }), "{error}");
}

const TEXT_FIXTURES: [&str; 8] = [
    "openai.json",
    "openai-lines.jsonl",
    "openai-many.jsonl",
    "anthropic.json",
    "sharegpt.json",
    "pairs.jsonl",
    "haystacks.jsonl",
    "instances.jsonl",
];

/// Imports in each format and checks that an error names the file.
fn import_all(bytes: &[u8]) {
    let (_folder, path) = scratch(bytes);
    for format in std::iter::once(None).chain(Format::ALL.map(Some)) {
        if let Err(error) = import_path(&path, format) {
            assert!(error.to_string().contains("history: "), "{error}");
        }
    }
    let _ = load_haystacks(&path);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn truncated_text_never_panics(file in 0..TEXT_FIXTURES.len(), keep in 0.0..1.0f64) {
        let mut bytes = std::fs::read(fixture(TEXT_FIXTURES[file])).unwrap();
        bytes.truncate((bytes.len() as f64 * keep) as usize);
        import_all(&bytes);
    }

    #[test]
    fn flipped_bits_in_text_never_panic(
        file in 0..TEXT_FIXTURES.len(),
        flips in prop::collection::vec((0.0..1.0f64, 0..8u8), 1..6),
    ) {
        let mut bytes = std::fs::read(fixture(TEXT_FIXTURES[file])).unwrap();
        for (place, bit) in flips {
            let index = (bytes.len() as f64 * place) as usize;
            bytes[index] ^= 1 << bit;
        }
        import_all(&bytes);
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        import_all(&bytes);
    }

    #[test]
    fn any_history_survives_our_own_format(
        texts in prop::collection::vec((".*", ".*", 0..6usize), 1..8),
    ) {
        let message = |(index, (role, text, kind)): (usize, (String, String, usize))| {
            let part = match kind {
                0 => ContentPart::Text { text },
                1 => ContentPart::Reasoning { text },
                2 => ContentPart::Unsupported { kind: text },
                3 => super::call(None, &text, &role),
                4 => super::call(Some(&role), &text, "{}"),
                _ => super::result(Some(&role), None, &text),
            };
            Message { role: Role::from(role), content: vec![part], origin: Origin { record: index } }
        };
        let messages: Vec<Message> = texts.into_iter().enumerate().map(message).collect();
        let history = History { messages, ..History::default() };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        write_history(&path, &history).unwrap();
        let read = import_history(&path, None, None).unwrap();
        prop_assert_eq!(read.messages, history.messages);
    }
}
