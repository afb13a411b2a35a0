//! The adaptations that keep messages from being lost, and the order in which they are tried.
use serde_json::json;

use super::{
    Adaptation,
    turn::{Piece, Turn, arguments},
};
use crate::history::Role;

type Step = Option<(Adaptation, fn(&[Turn]) -> Vec<Turn>)>;

const TOOLS: [Step; 3] = [
    None,
    Some((Adaptation::SeparatedToolCalls, separate_tool_calls)),
    Some((Adaptation::ToolsAsText, tools_as_text)),
];
const INSTRUCTIONS: [Step; 3] = [
    None,
    Some((Adaptation::FoldedIntoSystem, fold_into_system)),
    Some((Adaptation::FoldedIntoFirstUser, fold_into_first_user)),
];
const MERGING: [Step; 2] = [None, Some((Adaptation::MergedEqualRoles, merge_equal_roles))];

/// A conversation as adapted, and what was adapted.
pub(super) type Candidate = (Vec<Turn>, Vec<Adaptation>);

/// All ways to hand a conversation to a template, the least invasive first; each differs from those before it.
///
/// Tool turns as they are, then with calls parted from text, then written out as text; within each, instructions as
/// they are, folded into the first system message, folded into the first user message; within each, without and with
/// merging of equal roles in a row.
pub(super) fn candidates(turns: &[Turn]) -> impl Iterator<Item = Candidate> {
    let steps = TOOLS.iter().flat_map(|tool| {
        INSTRUCTIONS
            .iter()
            .flat_map(move |instruction| MERGING.iter().map(move |merge| [tool, instruction, merge]))
    });
    let mut seen: Vec<Vec<Turn>> = Vec::new();
    steps.filter_map(move |steps| {
        let (adapted, names) = apply(turns, steps);
        if seen.contains(&adapted) {
            return None;
        }
        seen.push(adapted.clone());
        Some((adapted, names))
    })
}

fn apply(turns: &[Turn], steps: [&Step; 3]) -> Candidate {
    let mut adapted = turns.to_vec();
    let mut names = Vec::new();
    for (name, step) in steps.into_iter().flatten() {
        let next = step(&adapted);
        if next != adapted {
            names.push(name.clone());
            adapted = next;
        }
    }
    (adapted, names)
}

/// Developer and system messages become one system message, at the front.
fn fold_into_system(turns: &[Turn]) -> Vec<Turn> {
    let mut pieces = instruction_pieces(turns);
    let mut folded: Vec<Turn> = turns.iter().filter(|turn| !turn.is_instruction()).cloned().collect();
    if !pieces.is_empty() {
        let pieces = std::mem::take(&mut pieces);
        let system = Turn { role: Role::System, pieces, reasoning: None, calls: Vec::new(), answers: None };
        folded.insert(0, system);
    }
    folded
}

/// Developer and system messages go in front of the first user message's content; without a user message nothing
/// changes, because there is nothing to fold into.
fn fold_into_first_user(turns: &[Turn]) -> Vec<Turn> {
    let mut folded: Vec<Turn> = turns.iter().filter(|turn| !turn.is_instruction()).cloned().collect();
    match folded.iter_mut().find(|turn| turn.role == Role::User) {
        Some(user) => {
            let mut pieces = instruction_pieces(turns);
            pieces.append(&mut user.pieces);
            user.pieces = pieces;
            folded
        }
        None => turns.to_vec(),
    }
}

fn instruction_pieces(turns: &[Turn]) -> Vec<Piece> {
    turns.iter().filter(|turn| turn.is_instruction()).flat_map(|turn| turn.pieces.clone()).collect()
}

/// Neighbours of one role become one turn. Tool results stay apart, because each answers its own call, and so do
/// messages with calls, because what follows a call is its result.
fn merge_equal_roles(turns: &[Turn]) -> Vec<Turn> {
    let mut merged: Vec<Turn> = Vec::with_capacity(turns.len());
    for turn in turns {
        let into = merged.last_mut().filter(|last| {
            last.role == turn.role
                && last.answers.is_none()
                && turn.answers.is_none()
                && last.calls.is_empty()
        });
        let Some(last) = into.filter(|_| turn.role != Role::Tool) else {
            merged.push(turn.clone());
            continue;
        };
        last.pieces.extend(turn.pieces.iter().cloned());
        last.calls.extend(turn.calls.iter().cloned());
        last.reasoning = match (last.reasoning.take(), &turn.reasoning) {
            (Some(first), Some(second)) => Some(format!("{first}\n{second}")),
            (first, second) => first.or_else(|| second.clone()),
        };
    }
    merged
}

/// A message with text and calls becomes the text, then one message a call, each followed by its result: some
/// templates render only one of the two, or only the first call.
fn separate_tool_calls(turns: &[Turn]) -> Vec<Turn> {
    let mut out: Vec<Turn> = Vec::with_capacity(turns.len());
    let mut rest = turns;
    while let Some((turn, after)) = rest.split_first() {
        if turn.calls.is_empty() {
            out.push(turn.clone());
            rest = after;
            continue;
        }
        let results = after.iter().take_while(|turn| turn.role == Role::Tool).count();
        let (results, after) = after.split_at(results);
        rest = after;
        let has_text = turn.pieces.iter().any(|piece| !piece.text.trim().is_empty());
        if has_text {
            out.push(Turn { calls: Vec::new(), reasoning: None, ..turn.clone() });
        }
        let empty = |text: &Piece| Piece { text: String::new(), ..text.clone() };
        let mut left: Vec<&Turn> = results.iter().collect();
        for (index, call) in turn.calls.iter().enumerate() {
            let pieces = turn.pieces.iter().take(1).map(empty).collect();
            let reasoning = turn.reasoning.clone().filter(|_| index == 0);
            out.push(Turn { pieces, reasoning, calls: vec![call.clone()], ..turn.clone() });
            let id_of = |turn: &Turn| turn.answers.as_ref().and_then(|(id, _)| id.clone());
            let by_id = left.iter().position(|turn| call.id.is_some() && id_of(turn) == call.id);
            let in_order = (!left.is_empty() && (call.id.is_none() || id_of(left[0]).is_none())).then_some(0);
            if let Some(at) = by_id.or(in_order) {
                out.push(left.remove(at).clone());
            }
        }
        out.extend(left.into_iter().cloned());
    }
    out
}

/// Calls are written into the assistant's text and results become user messages, in the tags of the Hermes format,
/// which Qwen's templates write too: for templates that know no tools.
fn tools_as_text(turns: &[Turn]) -> Vec<Turn> {
    let mut out: Vec<Turn> = Vec::with_capacity(turns.len());
    for turn in turns {
        let mut turn = turn.clone();
        let message = turn.pieces.first().map_or(0, |piece| piece.message);
        for call in std::mem::take(&mut turn.calls) {
            let body = json!({"name": call.name, "arguments": arguments(&call)});
            let text = format!("<tool_call>\n{body}\n</tool_call>");
            turn.pieces.push(Piece { message, text, by_model: true });
        }
        if turn.role == Role::Tool {
            turn.role = Role::User;
            turn.answers = None;
            for piece in &mut turn.pieces {
                piece.text = format!("<tool_response>\n{}\n</tool_response>", piece.text);
            }
        }
        out.push(turn);
    }
    out
}
