//! A conversation as Harmony messages.
use super::{ASSISTANT, CONSTRAIN, HarmonyMessage, ReasoningEffort, START, SystemMessage, developer_content};
use crate::{
    chat::{ChatError, RenderOptions, environment::RenderFailure, turn::Turn},
    history::Role,
};

/// The rendered text. Each piece of content, then each call's name, passes through `mark` once, in order.
pub(in crate::chat) fn render(
    turns: &[Turn],
    options: &RenderOptions,
    mark: &mut dyn FnMut(&str) -> String,
) -> Result<String, RenderFailure> {
    let mut messages = Vec::with_capacity(turns.len() + 1);
    messages.push(HarmonyMessage::new(Role::System.as_str(), system_message(options)?.content(false)));
    for (index, turn) in turns.iter().enumerate() {
        push_turn(&mut messages, &turns[..index], turn, mark)?;
    }
    let mut text = String::new();
    for message in without_past_analysis(&messages) {
        message.write(&mut text);
    }
    if options.add_generation_prompt {
        text.push_str(START);
        text.push_str(ASSISTANT);
    }
    Ok(text)
}

/// Where the model's last message is an answer, reasoning before the first answer is left out.
///
/// This is the rule of OpenAI's renderer: reasoning that led to a call stays as long as no answer followed it.
pub fn without_past_analysis(messages: &[HarmonyMessage]) -> impl Iterator<Item = &HarmonyMessage> {
    let last = messages.iter().rfind(|message| message.author == ASSISTANT);
    let first_answer = messages.iter().position(|message| message.is_in("final"));
    let dropped = match last {
        Some(last) if last.is_in("final") => first_answer.unwrap_or(0),
        _ => 0,
    };
    let kept =
        move |(index, message): &(usize, &HarmonyMessage)| *index >= dropped || !message.is_in("analysis");
    messages.iter().enumerate().filter(kept).map(|(_, message)| message)
}

fn system_message(options: &RenderOptions) -> Result<SystemMessage, RenderFailure> {
    let effort = match options.reasoning_effort.as_deref() {
        None => ReasoningEffort::Medium,
        Some(name) => ReasoningEffort::from_name(name)
            .ok_or_else(|| RenderFailure::Other(ChatError::ReasoningEffort { effort: name.to_owned() }))?,
    };
    Ok(SystemMessage { date: Some(options.date.clone()), effort, ..SystemMessage::default() })
}

fn push_turn(
    messages: &mut Vec<HarmonyMessage>,
    before: &[Turn],
    turn: &Turn,
    mark: &mut dyn FnMut(&str) -> String,
) -> Result<(), RenderFailure> {
    let content = turn.content(mark);
    match &turn.role {
        Role::System | Role::User => messages.push(HarmonyMessage::new(turn.role.as_str(), content)),
        Role::Developer => {
            messages.push(HarmonyMessage::new(turn.role.as_str(), developer_content(Some(&content), &[])));
        }
        Role::Assistant => push_answer(messages, turn, content, mark),
        Role::Tool => {
            let tool = tool_name(before, turn).ok_or_else(|| {
                RenderFailure::Refused("a tool's result has neither a name nor a call before it".to_owned())
            })?;
            let message = HarmonyMessage::new(format!("functions.{tool}"), content);
            messages.push(message.to(ASSISTANT).in_channel("commentary"));
        }
        Role::Other(name) => {
            return Err(RenderFailure::Refused(format!("Harmony has no role {name:?}")));
        }
    }
    Ok(())
}

/// Reasoning, then the answer, or else what the model says before its calls, and the calls.
fn push_answer(
    messages: &mut Vec<HarmonyMessage>,
    turn: &Turn,
    content: String,
    mark: &mut dyn FnMut(&str) -> String,
) {
    if let Some(reasoning) = &turn.reasoning {
        messages.push(HarmonyMessage::new(ASSISTANT, reasoning.as_str()).in_channel("analysis"));
    }
    if turn.calls.is_empty() {
        messages.push(HarmonyMessage::new(ASSISTANT, content).in_channel("final"));
        return;
    }
    if !content.trim().is_empty() {
        messages.push(HarmonyMessage::new(ASSISTANT, content).in_channel("commentary"));
    }
    for call in &turn.calls {
        let recipient = format!("functions.{}", mark(&call.name));
        let message = HarmonyMessage::new(ASSISTANT, call.arguments.as_str()).to(&recipient);
        messages.push(message.in_channel("commentary").of_type(&format!("{CONSTRAIN}json")));
    }
}

/// The tool whose result this is: by its own name, its call's id, or else the last call before it.
fn tool_name<'a>(before: &'a [Turn], turn: &'a Turn) -> Option<&'a str> {
    let (id, name) = turn.answers.as_ref()?;
    let mut calls = before.iter().rev().flat_map(|turn| turn.calls.iter().rev());
    let call = match id {
        Some(id) => calls.clone().find(|call| call.id.as_ref() == Some(id)).or_else(|| calls.next()),
        None => calls.next(),
    };
    name.as_deref().or(call.map(|call| call.name.as_str()))
}
