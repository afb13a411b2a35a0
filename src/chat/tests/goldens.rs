//! Renderings equal to Jinja2's (`scripts/export_template_fixtures.py`).
use sha2::{Digest, Sha256};

use super::{conversation, fixture, options, source};
use crate::chat::{
    RenderOptions,
    date::Date,
    environment::{RenderFailure, Template},
    render::{Format, Renderer},
    turn,
};

pub(super) fn json(name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(fixture(name)).expect("a fixture is there");
    serde_json::from_str(&text).expect("a fixture is JSON")
}

/// Renders one case and returns what the golden should say.
fn outcome(
    template: &Template,
    messages: &serde_json::Value,
    told: &serde_json::Value,
) -> (&'static str, String) {
    let options = RenderOptions {
        add_generation_prompt: told["add_generation_prompt"] == true,
        thinking: told["enable_thinking"].as_bool(),
        reasoning_effort: told["reasoning_effort"].as_str().map(str::to_owned),
        ..options()
    };
    let date = Date::parse(&options.date).expect("a date");
    let renderer = Renderer {
        format: Format::Jinja(template),
        options: &options,
        date,
        bos_text: "<bos>",
        eos_text: "<eos>",
    };
    match renderer.text(&turn::turns(&conversation(messages)), &mut str::to_owned) {
        Ok(text) => ("text", text),
        Err(RenderFailure::Refused(words)) => ("refusal", words),
        Err(RenderFailure::Other(error)) => ("failure", error.to_string()),
    }
}

#[test]
pub(super) fn renderings_equal_jinja2() {
    let conversations = json("conversations.json");
    let goldens = json("goldens.json");
    assert_eq!(goldens["date"], options().date);
    let mut failures = Vec::new();
    for golden in goldens["goldens"].as_array().expect("a list") {
        let name = golden["template"].as_str().expect("a name");
        let Some(source) = source(name) else { continue };
        let digest: String = Sha256::digest(&source).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(golden["sha256"], digest, "the goldens of {name} were made from another template");
        let template = Template::compile(&source).expect("a template that Jinja2 takes compiles");
        for case in golden["cases"].as_array().expect("a list") {
            let title = case["conversation"].as_str().expect("a title");
            let (kind, text) = outcome(&template, &conversations[title], &case["options"]);
            let expected = case[kind].as_str();
            if expected != Some(&text) && !(kind == "failure" && expected.is_some()) {
                failures
                    .push(format!("{name}, {title}, {}: {kind}\n{text}\nexpected {case:#}", case["options"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} cases differ, the first:\n{}", failures.len(), failures[0]);
}
