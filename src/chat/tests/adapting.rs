//! No message is lost: what each published template does to awkward conversations.
use super::{call, options, result, small, template, text};
use crate::{
    chat::{
        Adaptation::{
            self, FoldedIntoFirstUser, FoldedIntoSystem, MergedEqualRoles, SeparatedToolCalls, ToolsAsText,
        },
        ChatError, ChatTemplate,
    },
    history::Message,
};

const QWEN3: &str = "Qwen-Qwen3-0.6B.jinja";
const QWEN35: &str = "Qwen3.5-4B.jinja";
const GEMMA3: &str = "gemma3.from-lenml.jinja";
const GEMMA4: &str = "google-gemma-4-31B-it.jinja";
const GPT_OSS: &str = "openai-gpt-oss-120b.jinja";
const SMOLLM2: &str = "gguf:SmolLM2-135M-Instruct.Q4_1.gguf";

/// Renders and checks that each message's content is in its span, then returns what was adapted.
fn check(template: &ChatTemplate, messages: &[Message]) -> Vec<Adaptation> {
    let tokenizer = small();
    let prompt = template.render(&tokenizer, messages, &options()).expect("every message is kept");
    assert_eq!(tokenizer.decode(&prompt.token_ids), prompt.text);
    assert_eq!(prompt.spans.len(), messages.len());
    for (message, span) in messages.iter().zip(&prompt.spans) {
        let covered = tokenizer.decode(&prompt.token_ids[span.clone()]);
        let wanted = message.plain_text();
        let escaped = serde_json::to_string(wanted.trim()).expect("JSON");
        let found = covered.contains(wanted.trim()) || covered.contains(escaped.trim_matches('"'));
        assert!(found, "{wanted:?} is not in {covered:?}");
    }
    prompt.adaptations
}

fn check_named(name: &str, messages: &[Message], expected: &[Adaptation]) {
    if let Some(template) = template(name) {
        assert_eq!(check(&template, messages), expected, "{name}");
    }
}

#[test]
fn instructions_of_every_kind_are_kept() {
    let messages = [
        text("system", "Base rules."),
        text("developer", "Application rule."),
        text("system", "Later rule."),
        text("user", "Who lit the lamp?"),
        text("assistant", "The keeper."),
        text("user", "When?"),
    ];
    for name in [QWEN3, QWEN35, GEMMA3, GPT_OSS] {
        check_named(name, &messages, &[FoldedIntoSystem]);
    }
    assert_eq!(check(&ChatTemplate::harmony(), &messages), [], "every message keeps its role");
    // These two write any role's name as it is.
    for name in [GEMMA4, SMOLLM2] {
        check_named(name, &messages, &[]);
    }
}

#[test]
fn short_contents_are_not_found_in_the_markup() {
    // "s", "a" and "user" stand in every rendering's markup; dropped messages of such words must still be missed.
    let messages =
        [text("system", "s"), text("developer", "a"), text("user", "user"), text("assistant", "m")];
    for name in [QWEN3, GPT_OSS] {
        check_named(name, &messages, &[FoldedIntoSystem]);
    }
    for name in [SMOLLM2, GEMMA4] {
        let Some(template) = template(name) else {
            continue;
        };
        let tokenizer = small();
        let prompt = template.render(&tokenizer, &messages, &options()).expect("kept");
        let covered: Vec<String> =
            prompt.spans.iter().map(|span| tokenizer.decode(&prompt.token_ids[span.clone()])).collect();
        assert_eq!(covered, ["s", "a", "user", "m"], "{name}");
    }
}

#[test]
fn a_template_that_refuses_system_gets_it_in_the_first_user_message() {
    let source = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}\
        {% endif %}{{ m.role }}: {{ m.content }};{% endfor %}";
    let template = ChatTemplate::from_jinja(source, &small()).expect("compiles");
    let messages = [text("system", "Be brief."), text("user", "Hi."), text("developer", "In French.")];
    assert_eq!(check(&template, &messages), [FoldedIntoFirstUser]);
    let prompt = template.render(&small(), &messages, &options()).expect("kept");
    assert_eq!(prompt.text, "user: Be brief.\n\nIn French.\n\nHi.;");

    let alone = [text("system", "Be brief.")];
    let error = template.render(&small(), &alone, &options()).expect_err("nothing to fold into");
    let ChatError::Refused { index: 0, role, refusal } = error else { panic!("{error}") };
    assert_eq!((role.as_str(), refusal.as_str()), ("system", "System role not supported"));
}

#[test]
fn equal_roles_are_merged_where_turns_must_alternate() {
    let messages =
        [text("user", "One."), text("user", "Two."), text("assistant", "Three."), text("assistant", "Four.")];
    check_named(GEMMA3, &messages, &[MergedEqualRoles]);
    check_named(QWEN3, &messages, &[]);
    let with_system = [text("developer", "Rule."), text("user", "One."), text("user", "Two.")];
    check_named(GEMMA3, &with_system, &[FoldedIntoSystem, MergedEqualRoles]);
}

#[test]
fn calls_and_results_are_kept() {
    let mut asks = text("assistant", "I check both.");
    asks.content.extend([call("a", "tide", "{\"hour\": 12}"), call("b", "wind", "{}")]);
    let messages = [
        text("user", "Tide and wind?"),
        asks,
        result("a", "high \"water\"\nsoon"),
        result("b", "12 kn"),
        text("assistant", "High, twelve knots."),
        text("user", "Thanks."),
    ];
    for name in [QWEN3, QWEN35] {
        check_named(name, &messages, &[]);
    }
    check_named(GPT_OSS, &messages, &[SeparatedToolCalls]);
    check_named(GEMMA3, &messages, &[ToolsAsText, MergedEqualRoles]);
    check_named(SMOLLM2, &messages, &[ToolsAsText]);
    if let Some(template) = template(GEMMA4) {
        check(&template, &messages);
    }
}

#[test]
fn reasoning_of_past_turns_may_go_but_not_the_answer() {
    let messages = [
        text("user", "6 times 7?"),
        text("assistant", "<think>\nSix sevens.\n</think>\n\nForty-two."),
        text("user", "Sure?"),
    ];
    for name in [QWEN3, QWEN35] {
        let Some(template) = template(name) else {
            continue;
        };
        let tokenizer = small();
        let prompt = template.render(&tokenizer, &messages, &options()).expect("kept");
        assert!(prompt.adaptations.is_empty() && !prompt.text.contains("Six sevens"), "{name}");
        assert_eq!(tokenizer.decode(&prompt.token_ids[prompt.spans[1].clone()]), "Forty-two.", "{name}");
    }
}

#[test]
fn what_no_adaptation_keeps_is_named() {
    let source =
        "{% for m in messages %}{% if m.role in ['user', 'system'] %}{{ m.content }}{% endif %}{% endfor %}";
    let template = ChatTemplate::from_jinja(source, &small()).expect("compiles");
    let messages = [text("user", "Hi."), text("assistant", "Too short.")];
    let error = template.render(&small(), &messages, &options()).expect_err("the assistant is lost");
    assert!(matches!(&error, ChatError::Dropped { index: 1, role, .. } if role == "assistant"));
    assert!(error.to_string().contains("message 1 (assistant)"), "{error}");

    let source = "{% for m in messages %}{% if m.role == 'assistant' %}{{ raise_exception('Ask only.') }}{% endif %}\
        {{ m.content }}{% endfor %}";
    let template = ChatTemplate::from_jinja(source, &small()).expect("compiles");
    let error = template.render(&small(), &messages, &options()).expect_err("the assistant is refused");
    assert_eq!(error.to_string(), "the chat template refuses message 1 (assistant): \"Ask only.\"");
}

#[test]
fn contents_out_of_order_are_not_kept() {
    let source = "{% for m in messages[::-1] %}{{ m.content }};{% endfor %}";
    let template = ChatTemplate::from_jinja(source, &small()).expect("compiles");
    let messages = [text("user", "First."), text("assistant", "Second.")];
    assert!(matches!(
        template.render(&small(), &messages, &options()),
        Err(ChatError::Dropped { index: 1, .. })
    ));
}
