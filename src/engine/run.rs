//! [`Engine::step`] and what surrounds it.

use std::collections::hash_map::Entry;

use super::batch::{OutputRow, ScheduledChunk};
use super::generation::Generation;
use super::load::Engine;
use super::sequence::{Goal, ScoreState, SequenceState, SequenceStatus};
use super::{Completion, EngineError, Request, RequestKind, SequenceId};
use crate::ops;
use candle_core::Tensor;

/// Rows projected to the vocabulary at once, so that logits of a long prompt never stand in memory together.
pub(super) const LOGIT_ROWS: usize = 32;

impl Engine {
    /// Queues a request. A request equal to one that is queued, running or among the last finished ones is
    /// answered by that one: results depend on tokens and settings alone.
    ///
    /// # Errors
    /// [`EngineError::ContextExceeded`] and [`EngineError::PoolTooSmall`] for what can never fit,
    /// [`EngineError::InvalidRequest`] for what makes no sense.
    pub fn submit(&mut self, request: Request) -> Result<SequenceId, EngineError> {
        self.check(&request)?;
        let id = self.next_id();
        let digest = request.digest();
        if let Some(completion) = self.recent.get(&digest) {
            let completion = Completion { id, prefilled_tokens: 0, seconds: 0.0, ..completion.clone() };
            self.stats.shared_requests += 1;
            self.finished.push(completion);
            return Ok(id);
        }
        match self.leaders.entry(digest) {
            Entry::Occupied(leader) => {
                self.stats.shared_requests += 1;
                self.askers.entry(*leader.get()).or_default().push(id);
                return Ok(id);
            }
            Entry::Vacant(place) => place.insert(id),
        };
        self.digests.insert(id, digest);
        let request_key = u64::from_le_bytes(std::array::from_fn(|i| digest[i]));
        match self.goal(&request, request_key) {
            Ok(goal) => {
                let sequence = SequenceState::new(request.prompt, request.boundaries, goal);
                self.sequences.insert(id, sequence);
                self.askers.insert(id, vec![id]);
                if request.is_follow_up {
                    self.waiting.push_front(id);
                } else {
                    self.waiting.push_back(id);
                }
            }
            Err(error) => {
                self.leaders.remove(&digest);
                self.digests.remove(&id);
                return Err(error);
            }
        }
        Ok(id)
    }

    fn check(&self, request: &Request) -> Result<(), EngineError> {
        let refuse = |reason: String| Err(EngineError::InvalidRequest(reason));
        let (longest_extra, extra_tokens) = match &request.kind {
            RequestKind::Generate(params) => {
                if params.max_tokens == 0 {
                    return refuse("max_tokens is 0".to_owned());
                }
                params.sampling.check()?;
                // A pool that cuts outputs shorter than the context would make them depend on its size.
                let room = self.context_length().saturating_sub(request.prompt.len());
                (params.max_tokens.min(room).max(1), Vec::new())
            }
            RequestKind::Score { continuations } => {
                if continuations.is_empty() || continuations.iter().any(Vec::is_empty) {
                    return refuse("a continuation to score is empty, or there is none".to_owned());
                }
                (continuations.iter().map(Vec::len).max().unwrap_or(0) - 1, continuations.concat())
            }
            RequestKind::Hidden => (0, Vec::new()),
            RequestKind::Logits { positions, .. } => {
                let ascending = positions.windows(2).all(|pair| pair[0] < pair[1]);
                let last = positions.last().copied();
                if !ascending || last.is_none_or(|last| last >= request.prompt.len()) {
                    let length = request.prompt.len();
                    return refuse(format!("positions must ascend below the prompt's {length} tokens"));
                }
                (0, Vec::new())
            }
        };
        if request.prompt.is_empty() {
            return refuse("the prompt is empty".to_owned());
        }
        self.check_tokens(&request.prompt)?;
        self.check_tokens(&extra_tokens)?;
        self.check_length(request.prompt.len(), longest_extra)
    }

    pub(super) fn check_tokens(&self, tokens: &[u32]) -> Result<(), EngineError> {
        let vocab = self.model.config().vocab_size;
        let Some(token) = tokens.iter().find(|&&token| token as usize >= vocab) else { return Ok(()) };
        let reason = format!("token id {token} is past the vocabulary of {vocab}");
        Err(EngineError::InvalidRequest(reason))
    }

    pub(super) fn check_length(&self, prompt: usize, extra: usize) -> Result<(), EngineError> {
        let limit = self.context_length();
        if prompt + extra > limit {
            return Err(EngineError::ContextExceeded { prompt: prompt + extra.saturating_sub(1), limit });
        }
        let needed = self.cache.plan().blocks_held(prompt + extra, self.options.max_batch_tokens);
        let total = self.cache.usage().total;
        if needed > total {
            return Err(EngineError::PoolTooSmall { tokens: prompt + extra, needed, total });
        }
        Ok(())
    }

    pub(super) fn goal(&mut self, request: &Request, request_key: u64) -> Result<Goal, EngineError> {
        Ok(match &request.kind {
            RequestKind::Generate(params) => {
                if params.grammar.is_some() {
                    self.prepare_grammars()?;
                }
                let max_new_tokens = params.max_tokens.min(self.context_length() - request.prompt.len());
                let (tokenizer, factory) = (self.tokenizer().ok(), self.grammars.as_ref());
                let params = params.clone();
                Goal::Generate(Box::new(Generation::new(
                    params,
                    request_key,
                    max_new_tokens,
                    tokenizer,
                    factory,
                )?))
            }
            RequestKind::Score { continuations } => Goal::Score(ScoreState {
                logprobs: vec![Vec::new(); continuations.len()],
                continuations: continuations.clone(),
                forks_left: 0,
            }),
            RequestKind::Hidden => Goal::Hidden,
            RequestKind::Logits { positions, top } => {
                Goal::Logits { positions: positions.clone(), top: *top, found: Vec::new() }
            }
        })
    }

    /// Schedules, runs the model once, and returns what finished.
    ///
    /// # Errors
    /// [`EngineError::PoolHeldBySessions`] when nothing can run; errors of the model, which stop the engine.
    pub fn step(&mut self) -> Result<Vec<Completion>, EngineError> {
        let chunks = match self.schedule() {
            // What is finished is delivered first; the next step says that nothing can run.
            Err(EngineError::PoolHeldBySessions { .. }) if !self.finished.is_empty() => Vec::new(),
            chunks => chunks?,
        };
        if chunks.is_empty() {
            if self.finished.is_empty() && self.has_work() {
                let (running, waiting) = (self.running.len(), self.waiting.len());
                return Err(EngineError::Stuck { running, waiting });
            }
            return Ok(std::mem::take(&mut self.finished));
        }
        let (batch, rows) = self.build_batch(&chunks);
        let (plan, arena) = self.cache.arena_mut();
        let hidden = match self.model.forward(&batch, plan, arena) {
            Ok(hidden) => hidden,
            Err(error) => {
                // What a pass that failed halfway left in recurrent states is of no use to anyone.
                chunks.iter().for_each(|chunk| self.preempt(chunk.id));
                return Err(error.into());
            }
        };
        self.stats.steps += 1;
        self.commit(&chunks);
        self.read_rows(&hidden, &rows)?;
        self.hold_finished_prefills(&chunks);
        Ok(std::mem::take(&mut self.finished))
    }

    fn commit(&mut self, chunks: &[ScheduledChunk]) {
        for &ScheduledChunk { id, start, end } in chunks {
            let Some(sequence) = self.sequences.get_mut(&id) else { continue };
            self.cache.commit(&mut sequence.cache, &sequence.tokens, end);
            let prefilled = end.min(sequence.prompt_len).saturating_sub(start);
            if !matches!(sequence.goal, Goal::Continuation(_)) {
                sequence.prefilled_tokens += prefilled;
                self.stats.prefilled_tokens += prefilled as u64;
            }
            let passed = sequence.boundaries.partition_point(|&boundary| boundary <= end);
            for boundary in sequence.boundaries.drain(..passed) {
                self.cache.mark_boundary(&sequence.cache, boundary);
                if boundary < sequence.prompt_len {
                    sequence.last_boundary = Some(boundary);
                }
            }
            if end == sequence.prompt_len {
                self.cache.mark_boundary(&sequence.cache, end);
                if !matches!(sequence.goal, Goal::Continuation(_)) {
                    self.keep_prefix(id);
                }
            }
        }
    }

    /// Projects the output rows to the vocabulary, a few at a time, and hands each to its sequence. Rows whose hidden
    /// state is wanted are handed over as they are.
    fn read_rows(&mut self, hidden: &Tensor, rows: &[OutputRow]) -> Result<(), EngineError> {
        let wants_hidden =
            |row: &OutputRow| matches!(self.sequences.get(&row.id), Some(state) if state.wants_hidden());
        let (states, rows): (Vec<_>, Vec<_>) =
            (0u32..).zip(rows.iter().copied()).partition(|(_, row)| wants_hidden(row));
        for owners in states.chunks(LOGIT_ROWS) {
            let (places, owners): (Vec<u32>, Vec<OutputRow>) = owners.iter().copied().unzip();
            let states = ops::select_rows(&self.backend, hidden, &places)?;
            let width = states.dim(1)?;
            let elements = on_host(&states)?;
            for (row, state) in owners.iter().zip(elements.chunks_exact(width)) {
                self.finish_hidden(row.id, state.to_vec());
            }
        }
        for owners in rows.chunks(LOGIT_ROWS) {
            let (places, owners): (Vec<u32>, Vec<OutputRow>) = owners.iter().copied().unzip();
            let hidden = ops::select_rows(&self.backend, hidden, &places)?;
            let logits = self.model.logits(&hidden)?;
            let vocab = logits.dim(1)?;
            let elements = on_host(&logits)?;
            for (row, logits) in owners.iter().zip(elements.chunks_exact(vocab)) {
                self.read_row(*row, logits)?;
            }
        }
        Ok(())
    }

    fn hold_finished_prefills(&mut self, chunks: &[ScheduledChunk]) {
        for chunk in chunks {
            let Some(sequence) = self.sequences.get_mut(&chunk.id) else { continue };
            if matches!(sequence.goal, Goal::Hold) && sequence.num_remaining() == 0 {
                sequence.status = SequenceStatus::Held;
                self.running.retain(|id| *id != chunk.id);
            }
        }
    }

    /// Whether anything is queued, running, or finished but not yet returned.
    pub fn has_work(&self) -> bool {
        !self.running.is_empty() || !self.waiting.is_empty() || !self.finished.is_empty()
    }

    /// Submits one request and steps until it is done. Other requests go on beside it; their completions are
    /// returned by the next [`Self::step`].
    ///
    /// # Errors
    /// As [`Self::submit`] and [`Self::step`]; the request is then dropped.
    pub fn run(&mut self, request: Request) -> Result<Completion, EngineError> {
        let id = self.submit(request)?;
        let mut found = None;
        let outcome = self.step_until(|_, completions| {
            let place = completions.iter().position(|completion| completion.id == id);
            found = place.map(|place| completions.remove(place));
            found.is_some()
        });
        match (outcome, found) {
            (Ok(()), Some(completion)) => Ok(completion),
            (outcome, _) => {
                self.cancel(id);
                outcome.and(Err(EngineError::RequestFailed(format!("{id:?} came to no end"))))
            }
        }
    }

    /// Steps until `is_done`, which sees each step's completions and may take some; the rest, an error or not, are
    /// returned by the next [`Self::step`].
    pub(super) fn step_until(
        &mut self,
        mut is_done: impl FnMut(&Self, &mut Vec<Completion>) -> bool,
    ) -> Result<(), EngineError> {
        let mut others = Vec::new();
        let outcome = loop {
            match self.step() {
                Ok(mut completions) => {
                    let done = is_done(self, &mut completions);
                    others.append(&mut completions);
                    if done {
                        break Ok(());
                    }
                }
                Err(error) => break Err(error),
            }
        };
        others.append(&mut self.finished);
        self.finished = others;
        outcome
    }
}

/// A tensor's elements, row by row, in one copy.
fn on_host(tensor: &Tensor) -> Result<Vec<f32>, EngineError> {
    Ok(tensor.flatten_all()?.to_vec1()?)
}
