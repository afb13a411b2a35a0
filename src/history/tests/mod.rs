//! Imports of our own fixtures; of the shared samples ([`shared`]); of damaged files ([`damage`]).
use std::path::{Path, PathBuf};

use super::*;

mod damage;
mod parquet_damage;
mod shared;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/histories").join(name)
}

/// Writes `bytes` to a file of a fresh folder; the folder lives as long as the first value.
fn scratch(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn text(text: &str) -> ContentPart {
    ContentPart::Text { text: text.to_owned() }
}

fn reasoning(text: &str) -> ContentPart {
    ContentPart::Reasoning { text: text.to_owned() }
}

fn call(id: Option<&str>, name: &str, arguments: &str) -> ContentPart {
    let id = id.map(str::to_owned);
    ContentPart::ToolCall(ToolCall { id, name: name.to_owned(), arguments: arguments.to_owned() })
}

fn result(call_id: Option<&str>, name: Option<&str>, content: &str) -> ContentPart {
    ContentPart::ToolResult(ToolResult {
        call_id: call_id.map(str::to_owned),
        name: name.map(str::to_owned),
        content: content.to_owned(),
    })
}

fn unsupported(kind: &str) -> ContentPart {
    ContentPart::Unsupported { kind: kind.to_owned() }
}

fn one(name: &str) -> History {
    import_history(&fixture(name), None, None).unwrap_or_else(|error| panic!("{error}"))
}

/// Compares roles, contents and origins of a history with what is expected.
fn check(history: &History, expected: &[(&str, Vec<ContentPart>, usize)]) {
    for (index, (message, (role, content, record))) in history.messages.iter().zip(expected).enumerate() {
        assert_eq!(message.role.as_str(), *role, "message {index}");
        assert_eq!(message.content, *content, "message {index}");
        assert_eq!(message.origin.record, *record, "message {index}");
    }
    assert_eq!(history.messages.len(), expected.len());
}

#[test]
fn openai_messages_keep_their_types() {
    let history = one("openai.json");
    let unreadable = [text("Is this book in?"), unsupported("image_url"), unsupported("input_audio")];
    check(
        &history,
        &[
            ("system", vec![text("You look after a small library.")], 0),
            ("developer", vec![text("Answer in one sentence.")], 1),
            ("user", unreadable.to_vec(), 2),
            (
                "assistant",
                vec![
                    reasoning("The cover says Heron."),
                    call(Some("call_1"), "find", "{\"title\": \"Heron\"}"),
                    call(Some("call_2"), "opening_hours", "{}"),
                ],
                3,
            ),
            ("tool", vec![result(Some("call_1"), Some("find"), "shelf 4")], 4),
            ("tool", vec![result(Some("call_2"), None, "9 to 17\nnot on Mondays")], 5),
            ("assistant", vec![text("Yes, on shelf 4.")], 6),
            ("assistant", vec![call(None, "reserve", "{\"shelf\": 4}")], 7),
            ("tool", vec![result(None, Some("reserve"), "done")], 8),
            ("assistant", vec![text("I cannot lend you the catalogue.")], 9),
            ("assistant", vec![text("Nor the shelf.")], 10),
            ("critic", vec![text("Too short.")], 11),
            ("user", vec![], 12),
        ],
    );
    assert_eq!(
        history.notes.to_string(),
        "content kept by kind only: image_url, input_audio; unknown roles kept: critic; message \
         fields not read: annotations, name; empty messages kept: 1; refusals kept as text: 2"
    );
}

#[test]
fn anthropic_results_become_tool_messages() {
    let history = one("anthropic.json");
    check(
        &history,
        &[
            ("system", vec![text("You fix bicycles.")], 0),
            ("user", vec![text("The chain slips.")], 0),
            (
                "assistant",
                vec![
                    reasoning("Probably worn."),
                    text("Let me look up its age."),
                    call(Some("toolu_1"), "part_age", "{\"part\":\"chain\"}"),
                ],
                1,
            ),
            ("tool", vec![result(Some("toolu_1"), None, "4,000 km")], 2),
            ("user", vec![text("Be quick.")], 2),
            ("assistant", vec![text("Replace it.")], 3),
        ],
    );
    assert_eq!(
        history.notes.to_string(),
        "content kept by kind only: image; record fields not read: model; tool results taken out \
         of user messages: 1; repeated tool calls dropped: 1; system texts put in front: 1"
    );
}

#[test]
fn sharegpt_speakers_get_roles() {
    let imported = import_path(&fixture("sharegpt.json"), None).unwrap();
    assert_eq!(imported.format, Format::Sharegpt);
    assert_eq!(imported.histories[0].id.as_deref(), Some("garden-1"));
    check(
        &imported.histories[0],
        &[
            ("system", vec![text("You know plants.")], 0),
            ("user", vec![text("When do I sow peas?")], 0),
            ("assistant", vec![call(None, "calendar", "{\"plant\":\"pea\"}")], 1),
            ("tool", vec![result(None, None, "March")], 2),
            ("assistant", vec![text("In March.")], 3),
            ("assistant", vec![text("calendar(pea)")], 4),
            ("narrator", vec![text("It rains.")], 5),
        ],
    );
    check(&imported.histories[1], &[("user", vec![text("And beans?")], 0)]);
    assert_eq!(
        imported.histories[0].notes.to_string(),
        "unknown roles kept: narrator; message fields not read: weight; unreadable function calls \
         kept as text: 1; system texts put in front: 1"
    );
}

#[test]
fn pairs_become_two_messages_each() {
    let history = one("pairs.jsonl");
    assert_eq!(history.id.as_deref(), Some("7"));
    check(
        &history,
        &[
            ("user", vec![text("Is a whale a fish?")], 0),
            ("assistant", vec![text("No, a mammal.")], 0),
            ("user", vec![text("And a shark?")], 1),
            ("assistant", vec![text("A fish.")], 1),
        ],
    );
}

#[test]
fn lines_may_have_a_mark_crlf_and_blank_lines() {
    let plain = one("openai-lines.jsonl");
    assert_eq!(plain.messages[2].plain_text(), "Another, \u{1f30a} please.");
    let bytes = std::fs::read(fixture("openai-lines.jsonl")).unwrap();
    let windows = String::from_utf8(bytes).unwrap().replace('\n', "\r\n");
    let (_folder, path) = scratch(format!("\u{feff}\r\n{windows}").as_bytes());
    assert_eq!(import_history(&path, None, None).unwrap(), plain);
}

#[test]
fn one_of_several_histories_is_chosen_by_index() {
    let path = fixture("openai-many.jsonl");
    let error = import_history(&path, None, None).unwrap_err();
    assert!(matches!(error, ImportError::SeveralHistories { count: 2, .. }));
    assert!(error.to_string().contains("holds 2 histories; choose one with --index 0 to 1"));
    let second = import_history(&path, None, Some(1)).unwrap();
    assert_eq!(second.id.as_deref(), Some("2"));
    assert_eq!(second.messages[0].plain_text(), "Two?");
    let error = import_history(&path, None, Some(2)).unwrap_err();
    assert!(matches!(error, ImportError::IndexOutOfRange { index: 2, count: 2, .. }));
}

#[test]
fn parquet_and_jsonl_of_a_table_are_equal() {
    let lines = load_haystacks(&fixture("haystacks.jsonl")).unwrap();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].messages[1].content, "[tool call] search {\"query\": \"north harbour tides\"}");
    assert_eq!(lines[1].message_tokens, [3, 6, 9]);
    for name in ["haystacks.parquet", "haystacks-v2.parquet"] {
        assert_eq!(load_haystacks(&fixture(name)).unwrap(), lines, "{name}");
    }
    for table in ["haystacks", "instances"] {
        let from_lines = import_path(&fixture(&format!("{table}.jsonl")), None).unwrap();
        let from_parquet = import_path(&fixture(&format!("{table}.parquet")), None).unwrap();
        assert_eq!(from_parquet.format, from_lines.format);
        for (left, right) in from_parquet.histories.iter().zip(&from_lines.histories) {
            assert_eq!((&left.id, &left.messages), (&right.id, &right.messages));
        }
    }
}

#[test]
fn an_instance_yields_the_history_with_the_constraint() {
    let imported = import_path(&fixture("instances.parquet"), None).unwrap();
    assert_eq!(imported.format, Format::ConpactInstances);
    let first = &imported.histories[0];
    assert_eq!(first.id.as_deref(), Some("fixture-000-sc01"));
    assert_eq!(first.messages.len(), 6);
    assert_eq!(first.messages[0].plain_text(), "From now on, give heights in feet.");
}

#[test]
fn a_haystack_serialises_as_its_source() {
    let source = std::fs::read_to_string(fixture("haystacks.jsonl")).unwrap();
    let haystacks = load_haystacks(&fixture("haystacks.jsonl")).unwrap();
    for (line, haystack) in source.lines().zip(haystacks) {
        let written = serde_json::to_string(&haystack).unwrap();
        // Python writes a space after each comma and colon; the order of fields must be the same.
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(written, value.to_string());
    }
}

#[test]
fn a_history_becomes_a_haystack_that_is_read_back() {
    let history = one("openai.json");
    let words = |text: &str| Ok::<_, std::convert::Infallible>(text.split_whitespace().count());
    let haystack = Haystack::from_history(&history, "h-1", "library", words).unwrap();
    assert_eq!(haystack.message_tokens.len(), 13);
    assert_eq!(haystack.messages[2].content, "Is this book in?\n[image_url]\n[input_audio]");
    assert_eq!(haystack.message_tokens[2], 6);
    assert_eq!(haystack.token_length, haystack.message_tokens.iter().sum::<usize>());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("haystack.jsonl");
    write_atomically(&path, |out| haystack.write_jsonl(out)).unwrap();
    assert_eq!(load_haystacks(&path).unwrap(), [haystack]);
}

#[test]
fn own_format_is_read_back_exactly() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["openai.json", "anthropic.json", "pairs.jsonl", "openai-lines.jsonl"] {
        let history = one(name);
        let path = folder.path().join(name);
        write_history(&path, &history).unwrap();
        let imported = import_path(&path, None).unwrap();
        assert_eq!(imported.format, Format::Longwick);
        assert_eq!(imported.histories[0].messages, history.messages, "{name}");
    }
    // Nothing but the four files: the siblings were renamed.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
fn a_failed_write_leaves_the_old_file() {
    let (folder, path) = scratch(b"old");
    let error = write_atomically(&path, |out| {
        out.write_all(b"half")?;
        Err(std::io::Error::other("the disk is full"))
    });
    assert!(error.unwrap_err().to_string().contains("the disk is full"));
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[cfg(unix)]
#[test]
fn devices_and_links_stay_what_they_are() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let (folder, path) = scratch(b"old");
    let (link, null) = (folder.path().join("link"), folder.path().join("null"));
    symlink(&path, &link).unwrap();
    symlink("/dev/null", &null).unwrap();
    for out in [&link, &null] {
        write_atomically(out, |out| out.write_all(b"new")).unwrap();
        assert!(std::fs::symlink_metadata(out).unwrap().is_symlink(), "{}", out.display());
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn a_named_format_overrides_detection() {
    let (_folder, path) =
        scratch(br#"{"sessionId": "s", "agent": "a", "messages": [{"role": "user", "content": "Hi"}]}"#);
    let error = import_path(&path, None).unwrap_err();
    assert!(error.to_string().contains("this is a Cline session, which is not read"));
    let imported = import_path(&path, Some(Format::Openai)).unwrap();
    assert_eq!(imported.histories[0].messages[0].plain_text(), "Hi");
    let error = import_path(&path, Some(Format::Sharegpt)).unwrap_err().to_string();
    assert!(error.contains("line 1: field `conversations`: expected a list of messages"), "{error}");
}

#[test]
fn flat_messages_show_calls_and_results_as_text() {
    let flat: Vec<FlatMessage> = one("anthropic.json").messages.iter().map(FlatMessage::from).collect();
    let expected = [
        ("system", "You fix bicycles."),
        ("user", "The chain slips."),
        ("assistant", "Let me look up its age.\n[tool call] part_age {\"part\":\"chain\"}"),
        ("assistant", "[tool result]\n4,000 km"),
        ("user", "Be quick."),
        ("assistant", "Replace it."),
    ];
    let flat: Vec<_> = flat.iter().map(|m| (m.role.as_str(), m.content.as_str())).collect();
    assert_eq!(flat, expected);
    let message = Message::from(FlatMessage { role: "user".to_owned(), content: "Hi".to_owned() });
    assert_eq!(message, Message::text(Role::User, "Hi"));
}

#[test]
fn format_names_are_read_back() {
    for format in Format::ALL {
        assert_eq!(format.name().parse::<Format>().unwrap(), format);
    }
    let error = "word".parse::<Format>().unwrap_err().to_string();
    assert!(error.contains("longwick, openai, sharegpt, pairs"), "{error}");
}
