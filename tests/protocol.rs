//! The published protocol, digest for digest: every instance, judge prompt and summarisation prompt of the shared
//! vectors, which conpact 0.1.0 itself made.
//!
//! Needs the shared data and the exported protocol (`scripts/fetch_protocol.sh`); without either the tests skip and say
//! so.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use longwick::compint::{
    Instance, InstanceOptions, Position, Protocol, ProtocolError, build_instances, protocol,
};
use longwick::history::{FlatMessage, Haystack};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::path::PathBuf;

const PUBLISHED: &str = "conpact-0.1.0";

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    haystacks: String,
    length: usize,
    position: Position,
    repeat: usize,
    strict: bool,
    direct: bool,
    seed: u64,
    n: usize,
    digest: String,
    #[serde(default)]
    instances: Vec<Value>,
    judge_of_first_instance_first_3_messages: Option<[String; 2]>,
    summarization: Option<HashMap<String, String>>,
}

fn shared_data() -> PathBuf {
    std::env::var_os("LONGWICK_SHARED_DATA")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data"))
}

/// The vectors, their haystacks and the protocol; `None`, with the reason printed, where something is absent.
fn published() -> Option<(Vectors, HashMap<String, Vec<Haystack>>, Protocol)> {
    let folder = shared_data();
    let path = folder.join("conpact-vectors.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: {} is absent", path.display());
        return None;
    };
    let protocol = match Protocol::load(PUBLISHED) {
        Ok(protocol) => protocol,
        Err(error @ (ProtocolError::NotFound { .. } | ProtocolError::NoCache)) => {
            println!("skipped: {error}");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let vectors: Vectors = serde_json::from_str(&text).unwrap();
    let mut haystacks = HashMap::new();
    for case in &vectors.cases {
        haystacks.entry(case.haystacks.clone()).or_insert_with(|| {
            let lines = std::fs::read_to_string(folder.join("haystacks").join(&case.haystacks)).unwrap();
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Haystack>>()
        });
    }
    Some((vectors, haystacks, protocol))
}

fn sha256(bytes: impl AsRef<[u8]>) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn messages_digest(messages: &[FlatMessage]) -> String {
    let pairs: Vec<[&str; 2]> = messages.iter().map(|m| [m.role.as_str(), m.content.as_str()]).collect();
    sha256(serde_json::to_vec(&pairs).unwrap())
}

/// An instance as the vectors describe it; keys in sorted order, as their digest wants them.
fn row(instance: &Instance) -> Value {
    json!({
        "compliant_letter": instance.compliant_letter,
        "id": instance.id,
        "messages": messages_digest(&instance.messages),
        "messages_without_sc": messages_digest(&instance.messages_without_sc),
        "post_sc_probe_prompt": sha256(&instance.post_sc_probe_prompt),
        "probe_prompt": sha256(&instance.probe_prompt),
        "repeat": instance.repeat,
        "sc_message_indices": instance.sc_message_indices,
        "sc_rendered": sha256(&instance.sc_rendered),
        "swap_seed": instance.swap_seed,
        "token_length": instance.token_length,
    })
}

#[test]
fn every_published_digest() {
    let Some((vectors, haystacks, protocol)) = published() else {
        return;
    };
    let (mut judged, mut summarised) = (0, 0);
    for case in &vectors.cases {
        let name = format!(
            "{} {} {} x{} strict={} direct={} seed={}",
            case.haystacks, case.length, case.position, case.repeat, case.strict, case.direct, case.seed
        );
        let options = InstanceOptions {
            length: case.length,
            position: case.position,
            repeat: case.repeat,
            strict: case.strict,
            direct: case.direct,
            seed: case.seed,
        };
        let chosen: Vec<&Haystack> = haystacks[&case.haystacks].iter().collect();
        let instances = build_instances(&chosen, options, &protocol).unwrap();
        assert_eq!(case.n, instances.len(), "{name}");
        let rows: Vec<Value> = instances.iter().map(row).collect();
        // The rows say what differs where a digest would only say that something does.
        for (expected, row) in case.instances.iter().zip(&rows) {
            assert_eq!(expected, row, "{name}");
        }
        assert_eq!(case.digest, sha256(serde_json::to_vec(&rows).unwrap()), "{name}");

        let first = &instances[0];
        if let Some([system, user]) = &case.judge_of_first_instance_first_3_messages {
            let prompts =
                protocol.judge_prompts(&first.sc_text, &first.messages[..first.messages.len().min(3)]);
            assert_eq!([system, user], [&sha256(prompts.system), &sha256(prompts.user)], "judge, {name}");
            judged += 1;
        }
        for (prompt, digest) in case.summarization.iter().flatten() {
            let messages = protocol.compaction_prompt(prompt, &first.messages).unwrap();
            assert_eq!(*digest, messages_digest(&messages), "summarisation {prompt}, {name}");
            summarised += 1;
        }
    }
    println!("{} cases, {judged} judge and {summarised} summarisation digests", vectors.cases.len());
    assert!(vectors.cases.len() >= 208 && judged > 0 && summarised > 0);
}

// The sha256 of what python3.11 writes with conpact 0.1.0 (its build_instances on the haystack files' rows):
//   "".join(json.dumps(instance.to_dict()) + "\n" for instance in instances)
#[test]
fn lines_are_the_published_tools_bytes() {
    let Some((_, haystacks, protocol)) = published() else {
        return;
    };
    let options = |length, position, repeat, direct, seed| InstanceOptions {
        length,
        position,
        repeat,
        strict: true,
        direct,
        seed,
    };
    for (file, options, digest) in [
        (
            "agent.jsonl",
            options(2000, Position::Multi, 3, true, 7),
            "7392146335d9226531fe5c9a6b7abda5a1912243067ef3ea6554132a5ccac926",
        ),
        (
            "chat.jsonl",
            options(10000, Position::Bottom, 1, false, 12345678901),
            "398b0d35eba4323d93f93ae5813a370cd68aa65fc5b562361b0775892f7eeedc",
        ),
    ] {
        let chosen: Vec<&Haystack> = haystacks[file].iter().collect();
        let instances = build_instances(&chosen, options, &protocol).unwrap();
        let lines: String =
            instances.iter().map(|instance| instance.to_json_line().unwrap() + "\n").collect();
        assert_eq!(digest, sha256(&lines), "{file}");
        let read: Instance = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert_eq!(instances[0], read);
    }
}

#[test]
fn an_absent_protocol_is_an_error_that_names_the_script() {
    let folder = tempfile::tempdir().unwrap();
    let error = Protocol::load_from(PUBLISHED, folder.path()).unwrap_err();
    assert!(matches!(error, ProtocolError::NotFound { .. }));
    assert!(error.to_string().contains("scripts/fetch_protocol.sh"), "{error}");
    assert!(matches!(Protocol::load_from("../x", folder.path()), Err(ProtocolError::Name { .. })));
}

#[test]
fn damaged_protocols_are_errors() {
    let built_in = Protocol::load(protocol::BUILT_IN).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("longwick-1.json");
    let text = serde_json::to_string(&built_in).unwrap();
    std::fs::write(&path, &text).unwrap();
    assert_eq!(built_in, Protocol::load_from("longwick-1", folder.path()).unwrap());

    for cut in (0..text.len()).step_by(97) {
        std::fs::write(&path, &text.as_bytes()[..cut]).unwrap();
        let error = Protocol::load_from("longwick-1", folder.path()).unwrap_err();
        assert!(matches!(error, ProtocolError::Parse { .. } | ProtocolError::Io { .. }), "{cut}: {error}");
    }
    for (from, to, field) in [
        ("\"format\":1", "\"format\":2", "format"),
        ("\"name\":\"longwick-1\"", "\"name\":\"other\"", "name"),
        ("{option_b}", "", "probe"),
        ("{context}", "", "judge.user"),
        ("\"id\":2,", "\"id\":1,", "constraints[1].id"),
        ("{transcript}", "", "compaction.constraint-aware"),
        ("{user_message}", "", "extraction.default.user"),
        ("\"probe\":\"How many days are left in this year?\"", "\"probe\":\"\"", "constraints[8].probe"),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
        match Protocol::load_from("longwick-1", folder.path()).unwrap_err() {
            ProtocolError::Invalid { field: found, .. } => assert_eq!(field, found),
            other => panic!("{field}: {other}"),
        }
    }
}
