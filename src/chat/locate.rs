//! Where each message's content stands in a rendered prompt, and whether it is there at all.
//!
//! Searching for a short content ("a") in a prompt full of markup finds it where it is not. So the conversation is
//! rendered twice, once with each content enclosed in noncharacters that number it. If the second rendering without
//! those marks is the first one, the marks tell exactly what stands where, even trimmed or written as JSON. If it is
//! not, because the template looks at the content's first or last characters, contents are searched for in order.
use std::ops::Range;

use super::{
    python,
    turn::{Piece, Turn},
};

// Unicode noncharacters, which are never text: begin, end, end of the number, and sixteen digits.
const BEGIN: char = '\u{fdd0}';
const END: char = '\u{fdd1}';
const STOP: char = '\u{fdd2}';
const DIGITS: u32 = 0xfde0;

fn is_mark(character: char) -> bool {
    ('\u{fdd0}'..='\u{fdef}').contains(&character)
}

/// Numbers contents as it encloses them.
#[derive(Default)]
pub(super) struct Marker {
    next: usize,
}

impl Marker {
    /// Encloses the text without the white space around it, so that a template's trimming still works.
    pub fn mark(&mut self, text: &str) -> String {
        let number: String = format!("{:x}", self.next)
            .chars()
            .filter_map(|digit| char::from_u32(DIGITS + digit.to_digit(16)?))
            .collect();
        self.next += 1;
        let core = text.trim_matches(python::is_space);
        if core.is_empty() {
            return text.to_owned();
        }
        let start = text.len() - text.trim_start_matches(python::is_space).len();
        let (before, after) = (&text[..start], &text[start + core.len()..]);
        format!("{before}{BEGIN}{number}{STOP}{core}{END}{number}{STOP}{after}")
    }
}

/// What the marks of a rendering tell: for each number the first stretch so marked.
pub(super) struct Marks {
    ranges: Vec<Option<Range<usize>>>,
}

impl Marks {
    /// Reads the marks of `marked`, which must be `text` once they are taken out.
    pub fn read(text: &str, marked: &str, count: usize) -> Option<Self> {
        if text.contains(is_mark) {
            return None;
        }
        let mut stripped = String::with_capacity(text.len());
        let mut begins: Vec<Option<usize>> = vec![None; count];
        let mut ranges: Vec<Option<Range<usize>>> = vec![None; count];
        let mut characters = marked.chars();
        while let Some(character) = characters.next() {
            if !is_mark(character) {
                stripped.push(character);
                continue;
            }
            let digits = characters.by_ref().take_while(|digit| *digit != STOP);
            let number = digits.fold(0_usize, |number, digit| {
                (number << 4) | (u32::from(digit).wrapping_sub(DIGITS) & 15) as usize
            });
            match character {
                BEGIN => *begins.get_mut(number)? = Some(stripped.len()),
                END => {
                    let range = ranges.get_mut(number)?;
                    if let (Some(begin), None) = (begins[number], &range) {
                        *range = Some(begin..stripped.len());
                    }
                }
                _ => return None,
            }
        }
        (stripped == text).then_some(Self { ranges })
    }
}

/// Content that a rendering lacks.
pub(super) struct Missing {
    pub message: usize,
    pub role: String,
    pub what: String,
}

/// The byte ranges of a rendering's pieces and calls, each with its message.
pub(super) type Found = Vec<(usize, Range<usize>)>;

/// Finds all contents and calls in order.
///
/// What is empty lies, empty, where it would stand.
pub(super) fn locate(turns: &[Turn], text: &str, marks: Option<&Marks>) -> Result<Found, Missing> {
    let mut found = Vec::new();
    let mut cursor = 0;
    let mut number = 0;
    for turn in turns {
        let turn_start = cursor;
        let missing = |message, what| Missing { message, role: turn.role.to_string(), what };
        for piece in &turn.pieces {
            let range = locate_piece(piece, text, marks, number, cursor);
            let range = range.ok_or_else(|| missing(piece.message, "content".to_owned()))?;
            cursor = range.end;
            found.push((piece.message, range));
            number += 1;
        }
        let message = turn.pieces.first().map_or(0, |piece| piece.message);
        for call in &turn.calls {
            // Calls may stand before or after the text of their own message; only what came earlier is behind them.
            let range = match marks {
                Some(marks) => marks.ranges[number].clone().filter(|range| range.start >= turn_start),
                None => find(text, &call.name, turn_start),
            };
            let range = range.ok_or_else(|| missing(message, format!("call of {}", call.name)))?;
            found.push((message, range));
            number += 1;
        }
    }
    Ok(found)
}

fn locate_piece(
    piece: &Piece,
    text: &str,
    marks: Option<&Marks>,
    number: usize,
    cursor: usize,
) -> Option<Range<usize>> {
    let core = piece.text.trim_matches(python::is_space);
    if core.is_empty() {
        return Some(cursor..cursor);
    }
    let marked = marks.and_then(|marks| marks.ranges[number].clone());
    if let Some(range) = marked.filter(|range| range.start >= cursor) {
        return Some(range);
    }
    let answer = without_reasoning(core);
    let has_reasoning = piece.by_model && answer != core;
    if marks.is_some() && !has_reasoning {
        return None;
    }
    let mut escaped = String::new();
    python::write_json_string(&mut escaped, core, false);
    let escaped = &escaped[1..escaped.len() - 1];
    find(text, core, cursor).or_else(|| find(text, escaped, cursor)).or_else(|| match answer.as_str() {
        "" if has_reasoning => Some(cursor..cursor),
        answer if has_reasoning => find(text, answer, cursor),
        _ => None,
    })
}

fn find(text: &str, wanted: &str, cursor: usize) -> Option<Range<usize>> {
    let start = text.get(cursor..)?.find(wanted)? + cursor;
    Some(start..start + wanted.len())
}

/// A model's text without the reasoning that lies in it, which templates drop from past turns on purpose.
fn without_reasoning(text: &str) -> String {
    let mut answer = text.to_owned();
    if let Some((_, after)) = answer.rsplit_once("</think>") {
        answer = after.to_owned();
    }
    while let Some(start) = answer.find("<|channel>") {
        let end =
            answer[start..].find("<channel|>").map_or(answer.len(), |end| start + end + "<channel|>".len());
        answer.replace_range(start..end, "");
    }
    answer.trim_matches(python::is_space).to_owned()
}
