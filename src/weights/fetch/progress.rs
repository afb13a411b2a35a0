//! How a fetch tells what it does.

/// Receives a fetch's progress; the command line draws bars from it.
pub trait FetchProgress {
    /// A step begins: a download, a check. `total` counts bytes, `None` where unknown; `done` of them are there already.
    fn begin(&mut self, what: &str, total: Option<u64>, done: u64);
    /// `bytes` more are done.
    fn advance(&mut self, bytes: u64);
    /// The step is over.
    fn finish(&mut self);
    /// Something the user should read: a source was passed over, a file was moved aside.
    fn note(&mut self, message: &str);
}

/// Tells nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl FetchProgress for Silent {
    fn begin(&mut self, _what: &str, _total: Option<u64>, _done: u64) {}
    fn advance(&mut self, _bytes: u64) {}
    fn finish(&mut self) {}
    fn note(&mut self, _message: &str) {}
}
