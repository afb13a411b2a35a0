//! [`Generation`]: one output as it grows.

use super::{EngineError, FinishReason, GenerateParams, GrammarStart, RequestOutput};
use crate::decode::{Grammar, GrammarFactory, GrammarState, StopChecker, sample};
use crate::tokenizer::Tokenizer;

/// The grammar's part in a generation.
enum GrammarPhase {
    /// There is none.
    None,
    /// It will hold once this text has been generated.
    WaitsFor { text: StopChecker, grammar: Grammar },
    /// It holds.
    Active(Box<GrammarState>),
}

/// What the sampler, the grammar and the stop conditions know of one output.
pub(super) struct Generation {
    /// What was asked for.
    pub params: GenerateParams,
    /// Names the request in random draws.
    request_key: u64,
    /// `max_tokens`, or what the context leaves.
    max_new_tokens: usize,
    token_ids: Vec<u32>,
    logprobs: Vec<f32>,
    stop: Option<StopChecker>,
    grammar: GrammarPhase,
}

/// What a new token means.
pub(super) enum Progress {
    /// The output goes on with this token.
    Continues(u32),
    /// The output is complete.
    Ended(FinishReason),
}

impl Generation {
    /// A generation that has not begun. Grammars are compiled by `factory` when they begin to hold.
    pub fn new(
        params: GenerateParams,
        request_key: u64,
        max_new_tokens: usize,
        tokenizer: Option<&Tokenizer>,
        factory: Option<&GrammarFactory>,
    ) -> Result<Self, EngineError> {
        let stop = tokenizer
            .filter(|_| !params.stop_strings.is_empty())
            .map(|tokenizer| StopChecker::new(tokenizer.clone(), params.stop_strings.clone()));
        let grammar = match (&params.grammar, tokenizer, factory) {
            (None, ..) => GrammarPhase::None,
            (Some((grammar, GrammarStart::Immediately)), _, Some(factory)) => {
                GrammarPhase::Active(Box::new(factory.start(grammar)?))
            }
            (Some((grammar, GrammarStart::After(text))), Some(tokenizer), Some(factory)) => {
                // Compiled once here too, so that a grammar that cannot work fails before the model runs.
                factory.start(grammar)?;
                let text = StopChecker::new(tokenizer.clone(), vec![text.clone()]);
                GrammarPhase::WaitsFor { text, grammar: grammar.clone() }
            }
            _ => {
                let reason = "a grammar needs a tokenizer".to_owned();
                return Err(EngineError::InvalidRequest(reason));
            }
        };
        Ok(Self {
            params,
            request_key,
            max_new_tokens,
            token_ids: Vec::new(),
            logprobs: Vec::new(),
            stop,
            grammar,
        })
    }

    /// Chooses the token at `position` from the logits before it.
    pub fn advance(
        &mut self,
        logits: &[f32],
        position: usize,
        tokenizer: Option<&Tokenizer>,
        factory: Option<&GrammarFactory>,
    ) -> Result<Progress, EngineError> {
        let allowed = match &mut self.grammar {
            GrammarPhase::Active(state) => Some(state.allowed()?),
            _ => None,
        };
        let params = &self.params.sampling;
        let token = sample(logits, params, self.request_key, position as u64, allowed.as_ref())?;
        let stop_ids = tokenizer.map_or(&[][..], |tokenizer| tokenizer.stop_ids());
        if !self.params.ignore_eos && stop_ids.contains(&token) {
            return Ok(Progress::Ended(FinishReason::Stop));
        }
        self.token_ids.push(token);
        if self.params.logprobs {
            self.logprobs.push(logits[token as usize] - log_sum_exp(logits));
        }
        self.advance_grammar(token, factory)?;
        if self.stop.as_mut().is_some_and(|stop| stop.push(token)) || self.grammar_is_complete() {
            return Ok(Progress::Ended(FinishReason::Stop));
        }
        if self.token_ids.len() >= self.max_new_tokens {
            return Ok(Progress::Ended(FinishReason::Length));
        }
        Ok(Progress::Continues(token))
    }

    fn advance_grammar(&mut self, token: u32, factory: Option<&GrammarFactory>) -> Result<(), EngineError> {
        match &mut self.grammar {
            GrammarPhase::None => {}
            GrammarPhase::Active(state) => state.accept(token)?,
            GrammarPhase::WaitsFor { text, grammar } => {
                if let (true, Some(factory)) = (text.push(token), factory) {
                    self.grammar = GrammarPhase::Active(Box::new(factory.start(grammar)?));
                }
            }
        }
        Ok(())
    }

    fn grammar_is_complete(&self) -> bool {
        matches!(&self.grammar, GrammarPhase::Active(state) if state.is_finished())
    }

    /// Tokens generated so far.
    pub fn num_tokens(&self) -> usize {
        self.token_ids.len()
    }

    /// The finished output.
    pub fn into_output(self, finish_reason: FinishReason, tokenizer: Option<&Tokenizer>) -> RequestOutput {
        let text = match (&self.stop, tokenizer) {
            (Some(stop), _) => stop.text(),
            (None, Some(tokenizer)) => tokenizer.decode(&self.token_ids),
            (None, None) => String::new(),
        };
        RequestOutput::Generated { token_ids: self.token_ids, text, finish_reason, logprobs: self.logprobs }
    }
}

/// Natural log of the sum of exponentials, accumulated in f64 so that the vocabulary's size costs no digits.
pub(super) fn log_sum_exp(logits: &[f32]) -> f32 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from((logit - max).exp())).sum();
    max + sum.ln() as f32
}
