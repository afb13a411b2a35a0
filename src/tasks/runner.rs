//! [`run_jobs`]: many jobs over one engine.

use super::{Job, JobStep, RequestRefusal, RequestResult, TaskContext};
use crate::chat::ChatTemplate;
use crate::engine::{Completion, Engine, EngineError, Request, SequenceId};
use crate::tokenizer::Tokenizer;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

/// What [`run_jobs`] needs of an engine; tests give a scripted one.
pub trait Inference {
    /// See [`Engine::submit`].
    fn submit(&mut self, request: Request) -> Result<SequenceId, EngineError>;
    /// See [`Engine::step`].
    fn step(&mut self) -> Result<Vec<Completion>, EngineError>;
    /// See [`Engine::has_work`].
    fn has_work(&self) -> bool;
    /// See [`Engine::cancel`].
    fn cancel(&mut self, id: SequenceId);
    /// See [`Engine::tokenizer`].
    fn tokenizer(&self) -> Result<&Tokenizer, EngineError>;
    /// See [`Engine::template`].
    fn template(&self) -> Result<&ChatTemplate, EngineError>;
    /// See [`Engine::context_length`].
    fn context_length(&self) -> usize;
    /// Is told how far a job is with work of its own, see [`JobStep::Working`].
    fn own_work(&mut self, _done: usize, _total: usize) {}
}

impl Inference for Engine {
    fn submit(&mut self, request: Request) -> Result<SequenceId, EngineError> {
        Engine::submit(self, request)
    }
    fn step(&mut self) -> Result<Vec<Completion>, EngineError> {
        Engine::step(self)
    }
    fn has_work(&self) -> bool {
        Engine::has_work(self)
    }
    fn cancel(&mut self, id: SequenceId) {
        Engine::cancel(self, id);
    }
    fn tokenizer(&self) -> Result<&Tokenizer, EngineError> {
        Engine::tokenizer(self)
    }
    fn template(&self) -> Result<&ChatTemplate, EngineError> {
        Engine::template(self)
    }
    fn context_length(&self) -> usize {
        Engine::context_length(self)
    }
}

/// Settings of one call of [`run_jobs`].
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Jobs under way at once. More than the engine runs at once keeps its batch full.
    pub max_in_flight: NonZeroUsize,
    /// The date templates see, `YYYY-MM-DD`.
    pub date: String,
}

/// How [`run_jobs`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// All jobs are done.
    Finished,
    /// `on_done` asked to stop; jobs under way were dropped.
    Stopped,
    /// `interrupted` was set; jobs under way were dropped.
    Interrupted,
}

/// Why [`run_jobs`] could not go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A step of the engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The engine says it has nothing to do while jobs wait for it.
    #[error("the engine lost {waiting} requests: it has no work, and they are not answered")]
    Lost {
        /// Jobs that wait.
        waiting: usize,
    },
}

/// Runs `jobs` on `engine`, at most [`RunOptions::max_in_flight`] at a time.
///
/// Jobs begin in the order they come, so that those with a common prefix meet it in the cache; `on_done` gets each
/// result as it ends. A request the engine refuses goes back to its job. When `interrupted` becomes true the step
/// under way is finished, its results are delivered, and the rest is dropped.
///
/// # Errors
/// [`RunError`] where the engine itself fails. Results delivered before stay delivered.
pub fn run_jobs<K, J: Job>(
    engine: &mut dyn Inference,
    jobs: impl Iterator<Item = (K, J)>,
    options: &RunOptions,
    on_done: &mut dyn FnMut(K, J::Output) -> ControlFlow<()>,
    interrupted: &AtomicBool,
) -> Result<RunEnd, RunError> {
    let mut run = Run { engine, running: BTreeMap::new(), on_done, interrupted };
    let end = run.drive(jobs, options);
    // Whatever ended the run, the engine is handed back without this run's requests in it.
    for id in run.running.keys() {
        run.engine.cancel(*id);
    }
    end
}

struct Run<'r, K, J: Job> {
    engine: &'r mut dyn Inference,
    running: BTreeMap<SequenceId, (K, J)>,
    on_done: &'r mut dyn FnMut(K, J::Output) -> ControlFlow<()>,
    interrupted: &'r AtomicBool,
}

impl<K, J: Job> Run<'_, K, J> {
    fn drive(
        &mut self,
        mut jobs: impl Iterator<Item = (K, J)>,
        options: &RunOptions,
    ) -> Result<RunEnd, RunError> {
        let interrupted = self.interrupted;
        let (tokenizer, template) = (self.engine.tokenizer()?.clone(), self.engine.template()?.clone());
        let context = TaskContext {
            tokenizer: &tokenizer,
            template: &template,
            context_length: self.engine.context_length(),
            date: &options.date,
        };
        loop {
            while self.running.len() < options.max_in_flight.get() && !interrupted.load(Ordering::Relaxed) {
                let Some((key, job)) = jobs.next() else { break };
                if self.advance(&context, key, job, None).is_break() {
                    return Ok(RunEnd::Stopped);
                }
            }
            if interrupted.load(Ordering::Relaxed) {
                return Ok(RunEnd::Interrupted);
            }
            if self.running.is_empty() {
                return Ok(RunEnd::Finished);
            }
            if !self.engine.has_work() {
                return Err(RunError::Lost { waiting: self.running.len() });
            }
            for completion in self.engine.step()? {
                let Some((key, job)) = self.running.remove(&completion.id) else {
                    continue;
                };
                if self.advance(&context, key, job, Some(Ok(completion))).is_break() {
                    return Ok(RunEnd::Stopped);
                }
            }
        }
    }

    /// Advances a job until it waits for the engine or is done.
    fn advance(
        &mut self,
        context: &TaskContext<'_>,
        key: K,
        mut job: J,
        previous: Option<RequestResult>,
    ) -> ControlFlow<()> {
        let mut previous = previous;
        loop {
            match job.advance(context, previous.take()) {
                JobStep::Done(output) => return (self.on_done)(key, output),
                // Its own work may take long, so an interruption drops it between two parts.
                JobStep::Working { .. } if self.interrupted.load(Ordering::Relaxed) => {
                    return ControlFlow::Continue(());
                }
                JobStep::Working { done, total } => self.engine.own_work(done, total),
                JobStep::Submit(request) => match self.engine.submit(request) {
                    Ok(id) => {
                        self.running.insert(id, (key, job));
                        return ControlFlow::Continue(());
                    }
                    Err(error) => previous = Some(Err(RequestRefusal::from(error))),
                },
            }
        }
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
