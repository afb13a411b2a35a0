//! Splitting outputs, and what a template says of reasoning.
use super::{options, template};
use crate::chat::{
    ParsedOutput, RenderOptions,
    parser::parse,
    reasoning::Style::{self, GemmaChannel, Harmony, Plain, ThinkTags},
};

fn check(style: Style, open: bool, text: &str, reasoning: Option<&str>, answer: &str) -> ParsedOutput {
    let parsed = parse(text, style, open);
    assert_eq!((parsed.reasoning.as_deref(), parsed.answer.as_str()), (reasoning, answer), "{text:?}");
    parsed
}

#[test]
fn think_tags() {
    assert_eq!(
        check(ThinkTags, false, "<think>\nhm\n</think>\n\nYes.<|im_end|>\n", Some("hm"), "Yes.")
            .tool_calls
            .len(),
        0
    );
    check(ThinkTags, true, "hm\n</think>\n\nYes.", Some("hm"), "Yes.");
    check(ThinkTags, false, "hm</think>Yes.", Some("hm"), "Yes.");
    check(ThinkTags, false, "<think>\n\n</think>\n\nYes.", None, "Yes.");
    check(Plain, false, "Yes.<end_of_turn>", None, "Yes.");
    assert!(!check(ThinkTags, false, "Yes.", None, "Yes.").unfinished_reasoning);
    assert!(check(ThinkTags, false, "<think>\nI never", Some("I never"), "").unfinished_reasoning);
    assert!(check(ThinkTags, true, "I never", Some("I never"), "").unfinished_reasoning);
    assert!(check(ThinkTags, false, "<think>a</think>b<think>c", Some("a\nc"), "").unfinished_reasoning);
}

#[test]
fn tool_calls_leave_the_answer() {
    let text = "<think>x</think>\nLooking.\n<tool_call>\n{\"name\": \"tide\"}\n</tool_call>\n<tool_call>{\"name\": \"wi";
    let parsed = check(ThinkTags, false, text, Some("x"), "Looking.");
    assert_eq!(parsed.tool_calls, ["{\"name\": \"tide\"}", "{\"name\": \"wi"]);
    let text = "<|channel>thought\nhm\n<channel|>Done.<|tool_call>call:tide{hour:12}<tool_call|><turn|>";
    let parsed = check(GemmaChannel, false, text, Some("hm"), "Done.");
    assert_eq!(parsed.tool_calls, ["call:tide{hour:12}"]);
    assert!(check(GemmaChannel, false, "<|channel>thought\nhm", Some("hm"), "").unfinished_reasoning);
}

#[test]
fn harmony_channels() {
    let text = "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>";
    assert!(!check(Harmony, false, text, Some("Let me see."), "Yes.").unfinished_reasoning);
    let two = "<|channel|>final<|message|>No.<|end|><|start|>assistant<|channel|>final<|message|>Yes.";
    check(Harmony, false, two, None, "Yes.");
    let call = "<|channel|>analysis<|message|>Look.<|end|><|start|>assistant<|channel|>commentary to=functions.tide \
        <|constrain|>json<|message|>{\"hour\": 12}<|call|>";
    let parsed = check(Harmony, false, call, Some("Look."), "");
    assert_eq!(parsed.tool_calls.len(), 1);
    assert!(
        parsed.tool_calls[0].contains("to=functions.tide")
            && parsed.tool_calls[0].ends_with("{\"hour\": 12}")
    );
    assert!(!parsed.unfinished_reasoning);
    assert!(
        check(Harmony, false, "<|channel|>analysis<|message|>Let me", Some("Let me"), "")
            .unfinished_reasoning
    );
    check(Harmony, false, "Yes.<|return|>", None, "Yes.");
}

#[test]
fn parsing_takes_any_text() {
    let pieces = [
        "<think>",
        "</think>",
        "<|channel>",
        "<channel|>",
        "<|start|>",
        "<|message|>",
        "<tool_call>",
        "é",
        "<|end|>",
    ];
    for a in pieces {
        for b in pieces {
            for c in pieces {
                for style in [Plain, ThinkTags, GemmaChannel, Harmony] {
                    for open in [false, true] {
                        let parsed = parse(&format!("{a}{b}x{c}"), style, open);
                        assert!(!parsed.unfinished_reasoning || parsed.answer.is_empty());
                    }
                }
            }
        }
    }
}

#[test]
fn templates_tell_how_models_reason() {
    let with = |thinking| RenderOptions { thinking, ..options() };
    let check = |name: &str, thinking, reasons, closed: Option<&str>| {
        let Some(template) = template(name) else {
            return;
        };
        assert_eq!(template.reasons(&with(thinking)), reasons, "{name} {thinking:?}");
        assert_eq!(template.closed_reasoning(&with(thinking)).as_deref(), closed, "{name} {thinking:?}");
    };
    let qwen3 = "Qwen-Qwen3-0.6B.jinja";
    check(qwen3, None, true, Some("<think>\n\n</think>\n\n"));
    check(qwen3, Some(true), true, Some("<think>\n\n</think>\n\n"));
    check(qwen3, Some(false), false, None);
    check("Qwen3.5-4B.jinja", None, true, Some("\n</think>\n\n"));
    check("Qwen3.5-4B.jinja", Some(false), false, None);
    check("google-gemma-4-31B-it.jinja", None, false, None);
    check("google-gemma-4-31B-it.jinja", Some(true), true, Some("<|channel>thought\n<channel|>"));
    check("gemma3.from-lenml.jinja", None, false, None);
    check("gguf:SmolLM2-135M-Instruct.Q4_1.gguf", None, false, None);
    let harmony = "<|channel|>analysis<|message|><|end|><|start|>assistant<|channel|>final<|message|>";
    check("openai-gpt-oss-120b.jinja", None, true, Some(harmony));
    if let Some(template) = template(qwen3) {
        assert_eq!(template.reasoning_end(), Some("</think>\n\n"));
    }
    if let Some(template) = template("Qwen3.5-4B.jinja") {
        assert!(template.parse_output("all reasoning").unfinished_reasoning);
        assert_eq!(template.parse_output_for("an answer", &with(Some(false))).answer, "an answer");
    }
}
