//! The live progress of a run: a bar on a terminal, plain lines elsewhere.

use crate::compint::runner::RunObserver;
use crate::engine::{MemoryReport, ModelSpec};
use crate::model::QuantizationReport;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Plain lines come no oftener than this.
const LINE_EVERY: Duration = Duration::from_secs(5);

pub(super) struct Progress {
    /// On a terminal.
    bar: Option<ProgressBar>,
    stage: String,
    done: usize,
    total: usize,
    reused: usize,
    tokens: u64,
    began: Instant,
    /// When the first token was computed; loading is no part of the rate.
    computing_since: Option<Instant>,
    last_line: Option<Instant>,
    left: Option<Duration>,
}

impl Progress {
    pub fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self {
            bar,
            stage: String::new(),
            done: 0,
            total: 0,
            reused: 0,
            tokens: 0,
            began: Instant::now(),
            computing_since: None,
            last_line: None,
            left: None,
        }
    }

    pub fn finish(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        err_line!(
            "{} of {} results ({} were there already), {} tokens read and written, {}",
            self.done,
            self.total,
            self.reused,
            self.tokens,
            duration(self.began.elapsed())
        );
    }

    fn message(&self) -> String {
        let mut parts = vec![self.stage.clone()];
        if let Some(since) = self.computing_since {
            let seconds = since.elapsed().as_secs_f64();
            if seconds >= 1.0 {
                parts.push(format!("{:.0} tokens/s", self.tokens as f64 / seconds));
            }
        }
        if let Some(left) = self.left {
            parts.push(format!("about {} left", duration(left)));
        }
        parts.join(", ")
    }

    fn show(&mut self, now: bool) {
        if let Some(bar) = &self.bar {
            bar.set_length(self.total as u64);
            bar.set_position(self.done as u64);
            bar.set_message(self.message());
        } else if self.total > 0 && (now || self.last_line.is_none_or(|last| last.elapsed() >= LINE_EVERY)) {
            self.last_line = Some(Instant::now());
            err_line!("{}/{} {}", self.done, self.total, self.message());
        }
    }
}

impl RunObserver for Progress {
    fn stage(&mut self, name: &str) {
        let is_new = self.stage != name;
        name.clone_into(&mut self.stage);
        self.show(is_new);
    }

    fn progress(&mut self, done: usize, total: usize, reused: usize) {
        (self.done, self.total, self.reused) = (done, total, reused);
        self.show(false);
    }

    fn tokens(&mut self, prefilled: u64, generated: u64) {
        self.computing_since.get_or_insert_with(Instant::now);
        self.tokens = prefilled + generated;
        self.show(false);
    }

    fn time_left(&mut self, left: Option<Duration>) {
        self.left = left;
    }

    fn loading(&mut self, model: &ModelSpec, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            let mib = |bytes: u64| bytes >> 20;
            bar.set_message(format!("loading {model}: {} of {} MiB", mib(done), mib(total)));
        }
    }

    fn loaded(
        &mut self,
        model: &ModelSpec,
        memory: &MemoryReport,
        quantization: Option<&QuantizationReport>,
    ) {
        let mut line = format!("{model}: {memory}");
        if let Some(report) = quantization {
            line += &format!("\n{model}: {report}");
        }
        match &self.bar {
            Some(bar) => bar.suspend(|| err_line!("{line}")),
            None => err_line!("{line}"),
        }
    }
}

/// `42 s`, `3 min 5 s`, `2 h 7 min`.
pub(super) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}
