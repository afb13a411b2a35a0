//! Harmony renderings: equal to OpenAI's golden files, and every role kept.
use serde_json::{Value, json};

use super::{call, coverage, options, result, shared, small, text};
use crate::{
    chat::{
        Adaptation, ChatError, ChatTemplate, RenderOptions,
        harmony::{
            HarmonyMessage, ReasoningEffort, SystemMessage, Tool, ToolNamespace, developer_content,
            without_past_analysis,
        },
    },
    history::{ContentPart, Message},
};

/// A golden file, without the line end that some have.
pub(super) fn golden(name: &str) -> Option<String> {
    let file = format!("harmony/test-data/test_{name}.txt");
    let path = shared(&format!("templates/{file}"))?;
    coverage::note(file);
    Some(std::fs::read_to_string(path).expect("a golden file is UTF-8").trim_end().to_owned())
}

fn written<'a>(messages: impl IntoIterator<Item = &'a HarmonyMessage>) -> String {
    let mut text = String::new();
    messages.into_iter().for_each(|message| message.write(&mut text));
    text
}

/// Checks the messages, as a prompt, against a golden file.
fn check(name: &str, messages: &[HarmonyMessage]) {
    let Some(expected) = golden(name) else { return };
    assert_eq!(written(without_past_analysis(messages)) + "<|start|>assistant", expected, "{name}");
}

fn system(change: impl FnOnce(&mut SystemMessage), defines_functions: bool) -> HarmonyMessage {
    let mut system = SystemMessage::default();
    change(&mut system);
    HarmonyMessage::new("system", system.content(defines_functions))
}

fn user(content: &str) -> HarmonyMessage {
    HarmonyMessage::new("user", content)
}

fn model(channel: &str, content: &str) -> HarmonyMessage {
    HarmonyMessage::new("assistant", content).in_channel(channel)
}

fn tool(name: &str, description: &str, parameters: Option<Value>) -> Tool {
    Tool { name: name.to_owned(), description: description.to_owned(), parameters }
}

fn functions(tools: Vec<Tool>) -> ToolNamespace {
    ToolNamespace { name: "functions".to_owned(), description: None, tools }
}

/// The browser that gpt-oss was trained with.
fn browser() -> ToolNamespace {
    let description = "Tool for browsing.\n\
        The `cursor` appears in brackets before each browsing display: `[{cursor}]`.\n\
        Cite information from the tool using the following format:\n\
        `【{cursor}†L{line_start}(-L{line_end})?】`, for example: `【6†L9-L11】` or `【8†L3】`.\n\
        Do not quote more than 10 words directly from the tool output.\n\
        sources=web (default: web)";
    let number = || json!({"type": "number", "default": -1});
    let search = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "topn": {"type": "number", "default": 10},
            "source": {"type": "string"},
        },
        "required": ["query"],
    });
    let open = json!({
        "type": "object",
        "properties": {
            "id": {"type": ["number", "string"], "default": -1},
            "cursor": number(),
            "loc": number(),
            "num_lines": number(),
            "view_source": {"type": "boolean", "default": false},
            "source": {"type": "string"},
        },
    });
    let find = json!({
        "type": "object",
        "properties": {"pattern": {"type": "string"}, "cursor": number()},
        "required": ["pattern"],
    });
    let opens = "Opens the link `id` from the page indicated by `cursor` starting at line number `loc`, \
        showing `num_lines` lines.\n\
        Valid link ids are displayed with the formatting: `【{id}†.*】`.\n\
        If `cursor` is not provided, the most recent page is implied.\n\
        If `id` is a string, it is treated as a fully qualified URL associated with `source`.\n\
        If `loc` is not provided, the viewport will be positioned at the beginning of the document or \
        centered on the most relevant passage, if available.\n\
        Use this function without `id` to scroll to a new location of an opened page.";
    let searches = "Searches for information related to `query` and displays `topn` results.";
    let finds = "Finds exact matches of `pattern` in the current page, or the page given by `cursor`.";
    let tools = vec![
        tool("search", searches, Some(search)),
        tool("open", opens, Some(open)),
        tool("find", finds, Some(find)),
    ];
    ToolNamespace { name: "browser".to_owned(), description: Some(description.to_owned()), tools }
}

fn python() -> ToolNamespace {
    let description = "Use this tool to execute Python code in your chain of thought. The code will not be shown to \
        the user. This tool should be used for internal reasoning, but not for code that is intended to be visible to \
        the user (e.g. when creating plots, tables, or files).\n\n\
        When you send a message containing Python code to python, it will be executed in a stateful Jupyter notebook \
        environment. python will respond with the output of the execution or time out after 120.0 seconds. The drive \
        at '/mnt/data' can be used to save and persist user files. Internet access for this session is UNKNOWN. \
        Depends on the cluster.";
    ToolNamespace { name: "python".to_owned(), description: Some(description.to_owned()), tools: Vec::new() }
}

fn dated(system: &mut SystemMessage) {
    system.date = Some("2025-06-28".to_owned());
}

#[test]
pub(super) fn system_messages() {
    check("simple_convo", &[system(|_| (), false), user("What is 2 + 2?")]);
    check("no_tools", &[system(dated, false)]);
    let capital = "What is the capital of the largest country in the world?";
    let robot = "Answer the user's questions like a robot.";
    let developer = HarmonyMessage::new("developer", developer_content(Some(robot), &[]));
    for effort in [ReasoningEffort::Low, ReasoningEffort::Medium, ReasoningEffort::High] {
        let system = system(|system| system.effort = effort, false);
        let name = format!("simple_convo_{}_effort", effort.name());
        check(&name, &[system.clone(), developer.clone(), user(capital)]);
        check(&format!("{name}_no_instruction"), &[system, user(capital)]);
    }
    let two_channels =
        |system: &mut SystemMessage| system.channels = ["analysis", "final"].map(str::to_owned).to_vec();
    check("reasoning_system_message", &[system(two_channels, false), user("What is 2 + 2?")]);
    let high = system(
        |system| {
            two_channels(system);
            system.effort = ReasoningEffort::High;
        },
        false,
    );
    let candy = user("What is the best place to eat candy in the world?");
    check("reasoning_system_message_no_instruction", &[high, candy]);
    let old = system(
        |system| {
            two_channels(system);
            system.date = Some("2021-01-01".to_owned());
            system.knowledge_cutoff = "2021-01".to_owned();
        },
        false,
    );
    check("reasoning_system_message_with_dates", &[old, user("What is 42 * pi?")]);
}

#[test]
pub(super) fn built_in_tools() {
    let with = |tools: Vec<ToolNamespace>| {
        move |system: &mut SystemMessage| {
            dated(system);
            system.tools = tools;
        }
    };
    check("browser_tool_only", &[system(with(vec![browser()]), false)]);
    check("browser_and_python_tool", &[system(with(vec![browser(), python()]), false)]);
    let weather = "Use this tool to lookup the weather in a given location. Call it with the parameter 'location', \
        can be any textual description of a location.";
    let location =
        json!({"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]});
    let tools = [functions(vec![tool("lookup_weather", weather, Some(location))])];
    let developer = HarmonyMessage::new("developer", developer_content(None, &tools));
    check("browser_and_function_tool", &[system(with(vec![browser()]), true), developer]);
}

#[test]
pub(super) fn functions_with_parameters() {
    let format = json!({"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"});
    let city = "The city and state, e.g. San Francisco, CA";
    let cities = "List of city and state, e.g. [\"San Francisco, CA\", \"New York, NY\"]";
    let one = json!({
        "type": "object",
        "properties": {"location": {"type": "string", "description": city}, "format": format},
        "required": ["location"],
    });
    let several = json!({
        "type": "object",
        "properties": {
            "locations": {"type": "array", "items": {"type": "string"}, "description": cities},
            "format": format,
        },
        "required": ["locations"],
    });
    let kitchensink = json!({
        "description": "params object",
        "type": "object",
        "properties": {
            "string": {
                "type": "string", "title": "STRING", "description": "A string", "examples": ["hello", "world"],
            },
            "string_nullable": {
                "type": "string", "nullable": true, "description": "A nullable string", "default": "the default",
            },
            "string_enum": {"type": "string", "enum": ["a", "b", "c"]},
            "oneof_string_or_number": {
                "oneOf": [
                    {"type": "string", "default": "default_string_in_oneof"},
                    {"type": "number", "description": "numbers can happen too"},
                ],
                "description": "a oneof",
                "default": 20,
            },
        },
    });
    let tools = vec![
        tool("get_location", "Gets the location of the user.", None),
        tool("get_current_weather", "Gets the current weather in the provided location.", Some(one)),
        tool(
            "get_multiple_weathers",
            "Gets the current weather in the provided list of locations.",
            Some(several),
        ),
        tool("kitchensink", "A function with various complex schemas.", Some(kitchensink)),
    ];
    let high = system(
        |system| {
            dated(system);
            system.effort = ReasoningEffort::High;
        },
        true,
    );
    let content = developer_content(Some("Always respond in riddles"), &[functions(tools)]);
    let developer = HarmonyMessage::new("developer", content);
    check("render_functions_with_parameters", &[high, developer, user("What is the weather like in SF?")]);
}

#[test]
pub(super) fn past_reasoning() {
    let asked = [user("What is 2 + 2?"), user("What about 9 / 2?")];
    let answer = model("final", "2 + 2 equals 4.");
    let thought = model("analysis", "User asks: “What is 2 + 2?” Simple arithmetic. Provide answer.");
    check("dropping_cot_by_default", &[asked[0].clone(), thought, answer.clone(), asked[1].clone()]);
    let thought = "User asks: “What is the weather in SF?” We need to use lookup_weather tool.";
    let called = model("commentary", "{\"location\": \"San Francisco\"}")
        .to("functions.lookup_weather")
        .of_type("<|constrain|>json");
    let told =
        HarmonyMessage::new("functions.lookup_weather", "{\"temperature\": 20, \"description\": \"sunny\"}");
    let weather = user("What is the weather in SF?");
    check("does_not_drop_if_ongoing_analysis", &[weather, model("analysis", thought), called, told]);
    if let Some(expected) = golden("keep_analysis_between_finals") {
        let messages = [
            user("What is 2 + 2?"),
            model("analysis", "thinking 2+2"),
            model("final", "4"),
            user("What is 3 + 5?"),
            model("analysis", "thinking 3+5"),
            model("final", "8"),
        ];
        assert_eq!(written(without_past_analysis(&messages)), expected);
    }
    if let Some(expected) = golden("preserve_cot") {
        let thought = model("analysis", "User asks a simple question: \"What is 2 + 2?\" The answer: 4.");
        let messages = [asked[0].clone(), thought, answer, asked[1].clone()];
        assert_eq!(written(&messages) + "<|start|>assistant", expected);
    }
}

fn with_reasoning(reasoning: &str, mut message: Message) -> Message {
    message.content.insert(0, ContentPart::Reasoning { text: reasoning.to_owned() });
    message
}

#[test]
fn every_message_keeps_its_role() {
    let tokenizer = small();
    let mut calling = text("assistant", "I look both up.");
    calling.content.push(call("a", "tide", "{\"hour\": 12}"));
    calling.content.push(call("b", "wind", "{}"));
    let messages = [
        text("system", "Base rules."),
        text("user", "Tide and wind?"),
        with_reasoning("Two calls.", calling),
        result("b", "north"),
        result("a", "low"),
        text("developer", "Be brief."),
        text("user", "Well?"),
    ];
    let template = ChatTemplate::harmony();
    let prompt = template.render(&tokenizer, &messages, &options()).expect("rendered");
    let (_, conversation) = prompt.text.split_once("<|end|>").expect("a system message in front");
    let expected = "<|start|>system<|message|>Base rules.<|end|>\
        <|start|>user<|message|>Tide and wind?<|end|>\
        <|start|>assistant<|channel|>analysis<|message|>Two calls.<|end|>\
        <|start|>assistant<|channel|>commentary<|message|>I look both up.<|end|>\
        <|start|>assistant to=functions.tide<|channel|>commentary <|constrain|>json<|message|>{\"hour\": 12}<|call|>\
        <|start|>assistant to=functions.wind<|channel|>commentary <|constrain|>json<|message|>{}<|call|>\
        <|start|>functions.wind to=assistant<|channel|>commentary<|message|>north<|end|>\
        <|start|>functions.tide to=assistant<|channel|>commentary<|message|>low<|end|>\
        <|start|>developer<|message|># Instructions\n\nBe brief.<|end|>\
        <|start|>user<|message|>Well?<|end|><|start|>assistant";
    assert_eq!(conversation, expected);
    assert!(prompt.text.contains("Current date: 2026-03-09\n\nReasoning: medium\n\n# Valid channels"));
    assert_eq!(prompt.adaptations, []);
    for (message, span) in messages.iter().zip(&prompt.spans) {
        let covered = tokenizer.decode(&prompt.token_ids[span.clone()]);
        assert!(covered.contains(&message.plain_text()), "{covered:?}");
    }
}

#[test]
fn what_harmony_cannot_say_is_adapted_or_refused() {
    let tokenizer = small();
    let template = ChatTemplate::harmony();
    // A result without a call has no tool to come from.
    let orphan = [text("user", "Tide?"), result("a", "low")];
    let prompt = template.render(&tokenizer, &orphan, &options()).expect("kept as text");
    assert_eq!(prompt.adaptations[0], Adaptation::ToolsAsText);
    assert!(prompt.text.contains("low"));
    let critic = [text("user", "Tide?"), text("critic", "Why?")];
    let error = template.render(&tokenizer, &critic, &options()).expect_err("no such role");
    assert!(matches!(error, ChatError::UnknownRole { index: 1, .. }), "{error}");
    let effort = RenderOptions { reasoning_effort: Some("extreme".to_owned()), ..options() };
    let error = template.render(&tokenizer, &[text("user", "Tide?")], &effort).expect_err("no such effort");
    assert!(error.to_string().contains("\"extreme\""), "{error}");
    let low = RenderOptions { reasoning_effort: Some("low".to_owned()), ..options() };
    let prompt = template.render(&tokenizer, &[text("user", "Tide?")], &low).expect("rendered");
    assert!(prompt.text.contains("Reasoning: low"));
}

#[test]
fn a_model_without_tags_reasons_in_channels() {
    let template = ChatTemplate::harmony();
    assert!(template.reasons(&options()));
    assert_eq!(template.reasoning_end(), Some("<|channel|>final<|message|>"));
    let closed = template.closed_reasoning(&options()).expect("it reasons");
    assert!(closed.ends_with("<|start|>assistant<|channel|>final<|message|>"));
    assert_ne!(template.digest(), ChatTemplate::plain_transcript().digest());
}
