//! Which tokens end a turn, and which one begins a text.
use super::table::TokenTable;

/// Texts that end a turn or a text in the families longwick runs. Where a vocabulary has one of them as a
/// special token, it is a stop id even when the model's configuration forgets it, as several published ones do.
///
/// It must be special: Gemma's `</s>` is the end of an HTML tag.
///
/// gpt-oss's `<|end|>` is not among them: it ends the analysis channel, and the answer follows.
const TURN_ENDS: [&str; 12] = [
    "<|im_end|>",
    "<end_of_turn>",
    "<turn|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_turn|>",
    "<eos>",
    "</s>",
];

/// The configured ids and the well-known ones, ascending, each once.
pub(super) fn stop_ids(table: &TokenTable, configured: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let known = TURN_ENDS.iter().filter_map(|text| table.id(text)).filter(|id| table.is_special(*id));
    let mut ids: Vec<u32> = configured.into_iter().chain(known).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
