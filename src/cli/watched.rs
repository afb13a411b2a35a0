//! Running a command's jobs: how far they are on a terminal, and the exact prompts where they are asked for.

use crate::chat::ChatTemplate;
use crate::engine::{Completion, Engine, EngineError, EngineStats, Request, RequestKind, SequenceId};
use crate::tasks::Inference;
use crate::tokenizer::Tokenizer;
use indicatif::{ProgressBar, ProgressStyle};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often a line is written where standard error is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// How far a command is: a bar on a terminal, else a line now and then. Clones are one and the same.
#[derive(Debug, Clone)]
pub struct Progress {
    bar: ProgressBar,
    unit: &'static str,
    last_line: Rc<Cell<Instant>>,
}

impl Progress {
    /// `total` things of one kind (`contexts`, `turns`) are to be done.
    pub fn new(unit: &'static str, total: usize) -> Self {
        let bar = ProgressBar::new(total as u64);
        // The style is a constant; without it indicatif's own is used.
        if let Ok(style) = ProgressStyle::with_template("{pos}/{len} {prefix} {wide_bar} {elapsed} {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(unit);
        Self { bar, unit, last_line: Rc::new(Cell::new(Instant::now())) }
    }

    /// One more is done.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// Runs `print` while no bar stands on the terminal.
    pub fn print<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Takes the bar off the terminal.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Shows a message: on the bar, or in a line where there is no terminal and the last one is a while ago.
    pub fn note(&self, message: String) {
        if self.bar.is_hidden() && self.last_line.get().elapsed() >= LINE_EVERY {
            eprintln!("{}", self.line(&message));
            self.last_line.set(Instant::now());
        }
        self.bar.set_message(message);
    }

    fn line(&self, message: &str) -> String {
        let (done, total) = (self.bar.position(), self.bar.length().unwrap_or(0));
        let seconds = self.bar.elapsed().as_secs();
        format!("{done}/{total} {}, {seconds} s: {message}", self.unit)
    }
}

/// An engine whose steps move a [`Progress`], and whose prompts are shown where `shows_prompts` says so.
pub struct Watched<'e> {
    engine: &'e mut Engine,
    progress: Progress,
    shows_prompts: bool,
}

impl<'e> Watched<'e> {
    /// Watches `engine`.
    pub fn new(engine: &'e mut Engine, progress: Progress, shows_prompts: bool) -> Self {
        Self { engine, progress, shows_prompts }
    }

    /// See [`Engine::stats`].
    pub fn stats(&self) -> EngineStats {
        self.engine.stats()
    }

    /// Writes the prompt to standard error as the model gets it: special tokens as text, nothing left out.
    fn show_prompt(&self, request: &Request) -> Result<(), EngineError> {
        let text = self.engine.tokenizer()?.decode(&request.prompt);
        let purpose = match &request.kind {
            RequestKind::Generate(_) => "to be continued",
            RequestKind::Score { .. } => "whose continuations are scored",
            RequestKind::Hidden => "whose last hidden state is read",
            RequestKind::Logits { .. } => "whose logits are read",
        };
        let tokens = request.prompt.len();
        self.progress.print(|| {
            eprintln!("--- prompt of {tokens} tokens, {purpose} ---\n{text}\n--- end of prompt ---")
        });
        Ok(())
    }
}

impl Inference for Watched<'_> {
    fn submit(&mut self, request: Request) -> Result<SequenceId, EngineError> {
        if self.shows_prompts {
            self.show_prompt(&request)?;
        }
        self.engine.submit(request)
    }

    fn step(&mut self) -> Result<Vec<Completion>, EngineError> {
        let completions = self.engine.step()?;
        let stats = self.engine.stats();
        let message = format!(
            "{} tokens read, {} from the cache, {} written",
            stats.prefilled_tokens, stats.cached_tokens, stats.generated_tokens
        );
        self.progress.note(message);
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

    fn own_work(&mut self, done: usize, total: usize) {
        self.progress.note(format!("{done} of {total} windows read"));
    }
}
