//! `longwick run` from end to end, through the real binary, with a tiny model that the tests make themselves.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod resume;
mod runs;
mod tiny;
