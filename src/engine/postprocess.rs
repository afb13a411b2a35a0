//! What a row of logits means for its sequence.

use super::batch::OutputRow;
use super::generation::{Progress, log_sum_exp};
use super::load::Engine;
use super::sequence::{ContinuationState, Goal, SequenceState, SequenceStatus};
use super::{Completion, EngineError, FinishReason, PositionLogprobs, RequestOutput, SequenceId};
use crate::decode::ChoiceScores;

/// What is to be done with a sequence after one of its rows was read.
enum Next {
    Nothing,
    Append(u32),
    Finish(RequestOutput),
    EndGeneration(FinishReason),
    Fork,
    ContinuationDone,
}

impl Engine {
    pub(super) fn read_row(&mut self, row: OutputRow, logits: &[f32]) -> Result<(), EngineError> {
        let OutputRow { id, position } = row;
        // A sequence may have failed on an earlier row of this step.
        let Some(sequence) = self.sequences.get_mut(&id) else { return Ok(()) };
        let (tokenizer, factory) =
            (self.text.as_ref().ok().map(|text| &text.tokenizer), self.grammars.as_ref());
        let prompt_len = sequence.prompt_len;
        let next = match &mut sequence.goal {
            Goal::Generate(generation) => {
                match generation.advance(logits, position + 1, tokenizer, factory) {
                    Ok(Progress::Continues(token)) => Next::Append(token),
                    Ok(Progress::Ended(reason)) => Next::EndGeneration(reason),
                    Err(error) => Next::Finish(RequestOutput::Failed(error.to_string())),
                }
            }
            Goal::Score(state) => {
                let total = log_sum_exp(logits);
                for (continuation, logprobs) in state.continuations.iter().zip(&mut state.logprobs) {
                    *logprobs = vec![logits[continuation[0] as usize] - total];
                }
                Next::Fork
            }
            Goal::Continuation(state) => {
                // Rows come in order, but a recomputed sequence may bring one that was read before.
                if position == prompt_len + state.logprobs.len() {
                    let target = state.targets[state.logprobs.len()];
                    state.logprobs.push(logits[target as usize] - log_sum_exp(logits));
                }
                if state.logprobs.len() == state.targets.len() {
                    Next::ContinuationDone
                } else {
                    Next::Nothing
                }
            }
            Goal::Logits { positions, top, found } => {
                if positions.get(found.len()) == Some(&position) {
                    found.push(most_likely(position, logits, *top));
                }
                match found.len() == positions.len() {
                    true => Next::Finish(RequestOutput::Logits(std::mem::take(found))),
                    false => Next::Nothing,
                }
            }
            Goal::Hidden | Goal::Hold => Next::Nothing,
        };
        self.carry_out(id, next)
    }

    fn carry_out(&mut self, id: SequenceId, next: Next) -> Result<(), EngineError> {
        match next {
            Next::Nothing => {}
            Next::Append(token) => {
                self.stats.generated_tokens += 1;
                if let Some(sequence) = self.sequences.get_mut(&id) {
                    sequence.tokens.push(token);
                }
            }
            Next::EndGeneration(reason) => {
                let Some(sequence) = self.remove(id) else { return Ok(()) };
                let tokenizer = self.text.as_ref().ok().map(|text| &text.tokenizer);
                let (cached, prefilled) = (sequence.cached_tokens.unwrap_or(0), sequence.prefilled_tokens);
                let seconds = sequence.submitted.elapsed().as_secs_f64();
                if let Goal::Generate(generation) = sequence.goal {
                    self.stats.generated_tokens +=
                        (generation.num_tokens() + sequence.prompt_len - sequence.tokens.len()) as u64;
                    let output = generation.into_output(reason, tokenizer);
                    self.finish(Completion {
                        id,
                        output,
                        cached_tokens: cached,
                        prefilled_tokens: prefilled,
                        seconds,
                    });
                }
            }
            Next::Finish(output) => self.finish_with(id, output),
            Next::Fork => self.fork_continuations(id),
            Next::ContinuationDone => self.join_continuation(id),
        }
        Ok(())
    }

    /// Starts a fork for each continuation of more than one token; the prompt's blocks are shared.
    fn fork_continuations(&mut self, id: SequenceId) {
        let Some(sequence) = self.sequences.get(&id) else { return };
        let Goal::Score(state) = &sequence.goal else { return };
        let long: Vec<(usize, Vec<u32>)> = state
            .continuations
            .iter()
            .cloned()
            .enumerate()
            .filter(|(_, continuation)| continuation.len() > 1)
            .collect();
        if long.is_empty() {
            return self.finish_scored(id);
        }
        let (prompt, prompt_len) = (sequence.tokens.clone(), sequence.prompt_len);
        let forks_left = long.len();
        for (index, continuation) in long {
            let fork_id = self.next_id();
            let state = ContinuationState {
                parent: id,
                index,
                targets: continuation[1..].to_vec(),
                logprobs: Vec::new(),
            };
            let mut tokens = prompt.clone();
            tokens.extend_from_slice(&continuation[..continuation.len() - 1]);
            let mut fork = SequenceState::new(tokens, Vec::new(), Goal::Continuation(state));
            fork.prompt_len = prompt_len;
            fork.cached_tokens = Some(prompt_len);
            fork.cache = self.cache.fork(&self.sequences[&id].cache);
            fork.status = SequenceStatus::Running;
            self.sequences.insert(fork_id, fork);
            let reserved = self.blocks_to_reserve(fork_id);
            if let Some(fork) = self.sequences.get_mut(&fork_id) {
                fork.reserved_blocks = reserved;
            }
            self.running.push(fork_id);
        }
        // The forks hold the blocks from here on.
        self.running.retain(|other| *other != id);
        if let Some(sequence) = self.sequences.get_mut(&id) {
            self.cache.free(std::mem::take(&mut sequence.cache));
            sequence.status = SequenceStatus::Held;
            if let Goal::Score(state) = &mut sequence.goal {
                state.forks_left = forks_left;
            }
        }
    }

    fn join_continuation(&mut self, id: SequenceId) {
        let Some(fork) = self.remove(id) else { return };
        let Goal::Continuation(state) = fork.goal else { return };
        let Some(parent) = self.sequences.get_mut(&state.parent) else { return };
        let Goal::Score(score) = &mut parent.goal else { return };
        score.logprobs[state.index].extend(state.logprobs);
        score.forks_left -= 1;
        if score.forks_left == 0 {
            self.finish_scored(state.parent);
        }
    }

    fn finish_scored(&mut self, id: SequenceId) {
        let Some(sequence) = self.sequences.get(&id) else { return };
        if let Goal::Score(state) = &sequence.goal {
            let scores = ChoiceScores::from_logprobs(&state.logprobs);
            self.finish_with(id, RequestOutput::Scored(scores));
        }
    }

    pub(super) fn finish_hidden(&mut self, id: SequenceId, state: Vec<f32>) {
        self.finish_with(id, RequestOutput::Hidden(state));
    }

    fn finish_with(&mut self, id: SequenceId, output: RequestOutput) {
        let Some(sequence) = self.remove(id) else { return };
        self.finish(Completion {
            id,
            output,
            cached_tokens: sequence.cached_tokens.unwrap_or(0),
            prefilled_tokens: sequence.prefilled_tokens,
            seconds: sequence.submitted.elapsed().as_secs_f64(),
        });
    }

    /// Takes a sequence out of the engine and gives its blocks back.
    pub(super) fn remove(&mut self, id: SequenceId) -> Option<SequenceState> {
        let mut sequence = self.sequences.remove(&id)?;
        self.cache.free(std::mem::take(&mut sequence.cache));
        self.running.retain(|other| *other != id);
        self.waiting.retain(|other| *other != id);
        Some(sequence)
    }

    /// Delivers a completion to all who asked for it; the first of them is told the tokens it cost.
    fn finish(&mut self, completion: Completion) {
        if let Some(digest) = self.digests.remove(&completion.id) {
            self.leaders.remove(&digest);
            self.recent.insert(digest, completion.clone());
        }
        let askers = self.askers.remove(&completion.id).unwrap_or_default();
        for (place, id) in askers.into_iter().enumerate() {
            let prefilled_tokens = if place == 0 { completion.prefilled_tokens } else { 0 };
            self.finished.push(Completion { id, prefilled_tokens, ..completion.clone() });
        }
    }
}

/// The `top` most likely next tokens; ties go to the lower id.
fn most_likely(position: usize, logits: &[f32], top: usize) -> PositionLogprobs {
    let total = log_sum_exp(logits);
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    let by_logit = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    let top = top.min(ids.len());
    if top < ids.len() && top > 0 {
        ids.select_nth_unstable_by(top - 1, by_logit);
    }
    ids.truncate(top);
    // Else every position keeps room for a whole vocabulary.
    ids.shrink_to_fit();
    ids.sort_unstable_by(by_logit);
    let logprobs = ids.iter().map(|&id| logits[id as usize] - total).collect();
    PositionLogprobs { position, ids, logprobs }
}
