//! Every file of the shared templates is held against what was made from it, and no template loses a message unsaid.
use std::{cell::RefCell, collections::BTreeSet, path::Path};

use sha2::{Digest, Sha256};

use super::{conversation, goldens, harmony, harmony_parsing, options, shared, small, template, text};
use crate::chat::{ChatError, ChatTemplate};

thread_local! {
    /// Golden files that tests of this thread asked for.
    static ASKED: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// Notes that a test holds something against a golden file.
pub(super) fn note(file: String) {
    ASKED.with_borrow_mut(|asked| asked.insert(file));
}

/// Paths below `folder`, with `/`.
fn files(root: &Path, folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => files(root, &path, found),
            false => {
                let below = path.strip_prefix(root).expect("a path below the root");
                found.push(below.to_str().expect("UTF-8").replace('\\', "/"));
            }
        }
    }
}

fn digest(source: &str) -> String {
    Sha256::digest(source).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A template whose text has renderings by Jinja2, a golden file that the tests of Harmony ask for, a licence or a
/// document: there is no other file in the folder, and so none that no test looks at.
#[test]
fn every_shared_file_is_covered() {
    let Some(root) = shared("templates") else { return };
    // All tests of golden files, on this thread, which notes what they ask for.
    goldens::renderings_equal_jinja2();
    harmony::system_messages();
    harmony::built_in_tools();
    harmony::functions_with_parameters();
    harmony::past_reasoning();
    harmony_parsing::golden_outputs();
    harmony_parsing::pieces_may_end_anywhere();
    let asked = ASKED.take();
    let rendered = goldens::json("goldens.json");
    let rendered: BTreeSet<&str> = rendered["goldens"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|golden| golden["sha256"].as_str().expect("a digest"))
        .collect();

    let mut found = Vec::new();
    files(&root, &root, &mut found);
    let templates = found.iter().filter(|file| file.ends_with(".jinja")).count();
    assert!(templates >= 8 && found.len() > templates + 20, "{found:?}");
    for file in &found {
        let is_about = file.ends_with("LICENSE") || file.ends_with(".md");
        let is_covered = match file.ends_with(".jinja") {
            true => {
                let source = std::fs::read_to_string(root.join(file)).expect("a template is UTF-8");
                rendered.contains(digest(&source).as_str())
            }
            false => is_about || asked.contains(file),
        };
        assert!(
            is_covered,
            "{file} is covered by no test: a template needs scripts/export_template_fixtures.py, a golden file a check"
        );
    }
}

/// Each template with each conversation: every message is in the prompt, or the error says which one is not and why, in
/// the template's own words where it refuses.
#[test]
fn every_shared_template_keeps_each_message_or_names_it() {
    let Some(root) = shared("templates") else { return };
    let conversations = goldens::json("conversations.json");
    let mut found = Vec::new();
    files(&root, &root, &mut found);
    let (mut kept, mut named) = (0, 0);
    for file in found.iter().filter(|file| file.ends_with(".jinja")) {
        let source = std::fs::read_to_string(root.join(file)).expect("a template is UTF-8");
        let tokenizer = small();
        let template = ChatTemplate::from_jinja(&source, &tokenizer).expect("a published template compiles");
        for (title, messages) in conversations.as_object().expect("conversations by title") {
            let messages = conversation(messages);
            match template.render(&tokenizer, &messages, &options()) {
                Ok(prompt) => {
                    kept += 1;
                    for (message, span) in messages.iter().zip(&prompt.spans) {
                        let covered = tokenizer.decode(&prompt.token_ids[span.clone()]);
                        let wanted = message.plain_text();
                        let answer = wanted.rsplit("</think>").next().unwrap_or(&wanted).trim();
                        let escaped = serde_json::to_string(answer).expect("JSON");
                        assert!(
                            covered.contains(answer) || covered.contains(escaped.trim_matches('"')),
                            "{file}, {title}: {answer:?} is not in {covered:?}"
                        );
                    }
                }
                Err(ChatError::Refused { index, role, refusal }) => {
                    named += 1;
                    assert!(source.contains(&refusal), "{file}, {title}: {refusal:?} is not the template's");
                    let error = ChatError::Refused { index, role, refusal: refusal.clone() }.to_string();
                    assert!(error.contains(&refusal) && index < messages.len(), "{file}, {title}: {error}");
                }
                Err(ChatError::Dropped { index, .. }) => {
                    named += 1;
                    assert!(index < messages.len(), "{file}, {title}");
                }
                Err(ChatError::UnknownRole { index, role }) => {
                    named += 1;
                    assert_eq!(
                        (title.as_str(), index, role.as_str()),
                        ("unknown_role", 1, "critic"),
                        "{file}"
                    );
                }
                Err(other) => panic!("{file}, {title}: {other}"),
            }
        }
    }
    println!("{kept} conversations kept whole, {named} refused");
    assert!(kept > 0 && named > 0);
}

/// What no adaptation gets past ends in an error that names the message and quotes the published template's own words.
#[test]
fn refusals_quote_the_template() {
    let tags = "<|channel|>analysis<|message|>So.";
    for (name, messages, index, words) in [
        (
            "gemma3.from-lenml.jinja",
            vec![text("assistant", "Welcome."), text("user", "Hi.")],
            0,
            "Conversation roles must alternate user/assistant/user/assistant/...",
        ),
        ("Qwen3.5-4B.jinja", vec![text("assistant", "Welcome.")], 0, "No user query found in messages."),
        (
            "openai-gpt-oss-120b.jinja",
            vec![text("user", "Hi."), text("assistant", tags)],
            1,
            "You have passed a message containing <|channel|> tags in the content field.",
        ),
    ] {
        let Some(template) = template(name) else { continue };
        let error = template.render(&small(), &messages, &options()).expect_err("refused");
        let told = error.to_string();
        assert!(matches!(error, ChatError::Refused { index: at, .. } if at == index), "{name}: {told}");
        assert!(told.contains(words) && told.contains(&format!("message {index} ")), "{name}: {told}");
    }
}
