//! Protocol texts and instance building, apart from the published digests (`tests/protocol.rs`).

use super::protocol::ExtractionPrompt;
use super::template::Template;
use super::*;
use crate::history::{FlatMessage, Haystack};
use std::collections::BTreeMap;

fn longwick() -> Protocol {
    Protocol::load(protocol::BUILT_IN).unwrap()
}

fn message(role: &str, content: &str) -> FlatMessage {
    FlatMessage { role: role.into(), content: content.into() }
}

fn haystack(roles: &[&str]) -> Haystack {
    Haystack {
        haystack_id: "h".into(),
        source: "mine".into(),
        system_prompt: "s".into(),
        messages: roles.iter().enumerate().map(|(index, role)| message(role, &format!("m{index}"))).collect(),
        message_tokens: vec![10; roles.len()],
        token_length: 10 * roles.len(),
        source_conversation_count: 1,
    }
}

fn options(length: usize, position: Position, repeat: usize) -> InstanceOptions {
    InstanceOptions { length, position, repeat, strict: false, direct: true, seed: 42 }
}

#[test]
fn the_built_in_protocol_has_three_constraints_of_each_type() {
    let protocol = longwick();
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for constraint in &protocol.constraints {
        *types.entry(&constraint.kind).or_default() += 1;
    }
    let expected = ["Action", "Information", "Output", "Preference", "Process"].map(|kind| (kind, 3));
    assert_eq!(BTreeMap::from(expected), types);
    let ids: Vec<u32> = protocol.constraints.iter().map(|constraint| constraint.id).collect();
    assert_eq!((1..=15).collect::<Vec<u32>>(), ids);
    assert_eq!(
        vec!["constraint-aware", "continuity", "structured"],
        protocol.compaction.keys().map(String::as_str).collect::<Vec<_>>()
    );
}

#[test]
fn the_built_in_prompts_leave_no_place_unfilled() {
    let protocol = longwick();
    let history = [message("user", "hello"), message("assistant", "good day")];
    let (probe, letter) = protocol.probe_prompt("P", "C", "N", 42);
    // random.Random(42).random() is 0.639, so the options stay.
    assert_eq!(Letter::A, letter);
    assert!(probe.contains("\"P\"") && probe.contains("A) C\nB) N\n"), "{probe}");
    let (swapped, letter) = protocol.probe_prompt("P", "C", "N", 1);
    assert_eq!(Letter::B, letter);
    assert!(swapped.contains("A) N\nB) C\n"));

    let judge = protocol.judge_prompts("Be brief.", &history);
    assert!(
        judge.user.contains("Be brief.\n") && judge.user.contains("[user]\nhello\n\n[assistant]\ngood day\n")
    );
    let extraction = protocol.extraction_prompt("default").unwrap();
    let pair = extraction.render("U", Some("B"), &["one".into(), "two".into()]);
    assert!(
        pair.user.contains("1. one\n2. two\n\n") && pair.user.contains("B\n\nUser message:\nU\n"),
        "{}",
        pair.user
    );
    assert!(pair.system.contains(r#"{"scs":[{"text":"#) && pair.system.contains(r#""evidence":"#));
    let bare = extraction.render("U", None, &[]);
    assert!(bare.user.contains("(none)\n\nUser message:\nU\n"), "{}", bare.user);

    let mut texts =
        vec![probe, judge.system, judge.user, pair.user, bare.user, protocol.developer_prompt.clone()];
    for name in protocol.compaction.keys() {
        let messages = protocol.compaction_prompt(name, &history).unwrap();
        assert!(messages.iter().any(|message| message.content.contains("good day")), "{name}");
        texts.extend(messages.into_iter().map(|message| message.content));
    }
    for text in texts {
        assert!(!text.contains('{') && text.trim() != "", "{text}");
    }
}

#[test]
fn a_transcript_has_its_frame_even_when_empty() {
    let list = longwick().transcript;
    assert_eq!("=== conversation begins ===\n=== conversation ends ===", list.render(&[]));
}

#[test]
fn an_unknown_prompt_is_an_error_that_lists_the_known() {
    let error = longwick().compaction_prompt("anthropic", &[]).unwrap_err();
    assert_eq!(
        "protocol \"longwick-1\" has no compaction prompt \"anthropic\"; it has: constraint-aware, continuity, structured",
        error.to_string()
    );
}

// The expected texts are what python3.11 gives for three nested textwrap.dedent of f-strings: the registry block and
// the block of the message before are dedented on their own, then put into the user message, which is dedented again.
#[test]
fn nested_dedenting_equals_pythons() {
    let block = |text: &str| Template { text: text.into(), dedent: true, strip: false };
    let prompt = ExtractionPrompt {
        system: Template::plain(""),
        user: Template {
            text: "\n        {registry}{assistant_message}[Turn]\n        {user_message}\n\n        Answer.\n        ".into(),
            dedent: true,
            strip: true,
        },
        registry: block("\n        [Known]\n        {entries}\n\n        "),
        registry_empty: "(nothing)".into(),
        assistant_message: block("\n            [Before]\n            {text}\n\n            "),
        registry_header: Some("Known so far:".into()),
    };
    let cases: [(&str, &[&str], Option<&str>, &str); 5] = [
        ("u", &[], None, "[Known]\n(nothing)\n\n[Turn]\n        u\n\n        Answer."),
        ("u", &["a"], Some("p"), "[Known]\n1. a\n\n\n[Before]\np\n\n[Turn]\n        u\n\n        Answer."),
        ("u", &["a", "b"], None, "[Known]\n        1. a\n2. b\n\n[Turn]\n        u\n\n        Answer."),
        (
            "u\n  v",
            &[],
            Some("p\n            q"),
            "[Known]\n(nothing)\n\n\n[Before]\np\nq\n\n[Turn]\n        u\n  v\n\n        Answer.",
        ),
        (
            "u",
            &["a\n        c"],
            Some(""),
            "[Known]\n1. a\nc\n\n\n[Before]\n\n\n[Turn]\n        u\n\n        Answer.",
        ),
    ];
    for (user, registry, before, expected) in cases {
        let registry: Vec<String> = registry.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(expected, prompt.render(user, before, &registry).user);
    }
    assert_eq!(None, prompt.registry_turn(&[]));
    assert_eq!(Some("Known so far:\n1. a\n2. b".to_owned()), prompt.registry_turn(&["a".into(), "b".into()]));
}

#[test]
fn what_cannot_be_built_is_refused() {
    let protocol = longwick();
    let refuse = |haystack: &Haystack, options| build_instances(&[haystack], options, &protocol).unwrap_err();
    let mine = haystack(&["system", "user", "assistant"]);
    assert_eq!(InstanceError::Repeat { repeat: 1 }, refuse(&mine, options(30, Position::Multi, 1)));
    assert_eq!(InstanceError::Native, refuse(&mine, options(30, Position::Native, 1)));
    let research = Haystack { source: "openresearcher".into(), ..mine.clone() };
    let only_top = InstanceError::OnlyTop { haystack_id: "h".into(), position: Position::Bottom };
    assert_eq!(only_top, refuse(&research, options(30, Position::Bottom, 1)));
    assert!(build_instances(&[&research], options(30, Position::Top, 1), &protocol).is_ok());
    for position in [Position::Top, Position::Multi] {
        let nowhere = InstanceError::NoUserTurn { haystack_id: "h".into(), length: 10, messages: 1 };
        assert_eq!(nowhere, refuse(&mine, options(10, position, 2)));
    }
    let uneven = Haystack { message_tokens: vec![1], ..mine };
    let counts = InstanceError::Counts { haystack_id: "h".into(), messages: 3, counts: 1 };
    assert_eq!(counts, refuse(&uneven, options(30, Position::Top, 1)));
}

#[test]
fn short_haystacks_are_skipped_before_counting() {
    let haystacks: Vec<Haystack> =
        [20, 50, 10, 60, 70].map(|tokens| Haystack { token_length: tokens, ..haystack(&["user"]) }).into();
    let lengths = |first, keep| {
        let selection = select_haystacks(&haystacks, 50, first, keep).unwrap();
        (
            selection.chosen.iter().map(|haystack| haystack.token_length).collect::<Vec<_>>(),
            selection.too_short,
        )
    };
    assert_eq!((vec![50, 60], 2), lengths(Some(2), false));
    assert_eq!((vec![50, 60, 70], 2), lengths(None, false));
    assert_eq!((vec![20, 50], 0), lengths(Some(2), true));
    let none = InstanceError::NoneLongEnough { haystacks: 5, length: 71, longest: 70 };
    assert_eq!(none, select_haystacks(&haystacks, 71, None, false).unwrap_err());
}

/// The choice of turns and the order of options draw from generators of their own.
#[test]
fn swaps_do_not_depend_on_the_position() {
    let protocol = longwick();
    let mine = haystack(&["user"; 9]);
    let seeds = |position, repeat| {
        let instances = build_instances(&[&mine], options(90, position, repeat), &protocol).unwrap();
        instances.iter().map(|instance| instance.swap_seed).collect::<Vec<_>>()
    };
    assert_eq!(seeds(Position::Top, 1), seeds(Position::Multi, 3));
}
