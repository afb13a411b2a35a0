//! [`Recorder`]: an engine whose prompts are recorded.

use super::RecordedPrompt;
use crate::chat::ChatTemplate;
use crate::engine::{Completion, Engine, EngineError, EngineStats, Request, SequenceId};
use crate::tasks::Inference;
use crate::tokenizer::Tokenizer;
use std::cell::RefCell;
use std::collections::HashSet;

/// Prompts given to engines and not yet kept.
#[derive(Default)]
pub(super) struct PromptLog {
    pub(super) pending: Vec<RecordedPrompt>,
    /// Requests recorded in this process; an identical one is not computed again.
    seen: HashSet<(i64, [u8; 32])>,
}

/// Passes everything on to the engine, and notes the prompts it takes.
pub(super) struct Recorder<'a> {
    pub(super) engine: &'a mut Engine,
    pub(super) load: i64,
    pub(super) log: &'a RefCell<PromptLog>,
    pub(super) on_step: &'a mut dyn FnMut(&EngineStats),
}

impl Inference for Recorder<'_> {
    fn submit(&mut self, request: Request) -> Result<SequenceId, EngineError> {
        let recorded = RecordedPrompt {
            load: self.load,
            request: request.digest(),
            tokens: request.prompt.clone(),
            adaptations: request.adaptations.clone(),
        };
        let id = self.engine.submit(request)?;
        let mut log = self.log.borrow_mut();
        if log.seen.insert((recorded.load, recorded.request)) {
            log.pending.push(recorded);
        }
        Ok(id)
    }
    fn step(&mut self) -> Result<Vec<Completion>, EngineError> {
        let completions = self.engine.step()?;
        (self.on_step)(&self.engine.stats());
        Ok(completions)
    }
    fn has_work(&self) -> bool {
        self.engine.has_work()
    }
    fn cancel(&mut self, id: SequenceId) {
        self.engine.cancel(id);
    }
    fn tokenizer(&self) -> Result<&Tokenizer, EngineError> {
        self.engine.tokenizer()
    }
    fn template(&self) -> Result<&ChatTemplate, EngineError> {
        self.engine.template()
    }
    fn context_length(&self) -> usize {
        self.engine.context_length()
    }
}
