//! Opening models, and damage to their files.
#![allow(clippy::unwrap_used, clippy::print_stderr)]
mod folders;
mod naming;
mod properties;
mod real_files;
mod safetensors_header;
