//! `longwick run`, `compact` and `embed` from end to end, through the real binary, with tiny models.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod devices;
mod lingua;
mod quantize;
mod recoveries;
mod resume;
mod runs;
mod scripted;
mod tiny;
