//! longwick: in-process long-context inference for compaction, extraction and A/B probing, without a server.
//!
//! # Code map
//!
//! A module uses only what stands below it.
//!
//! | module | what it does |
//! |---|---|
//! | [`cli`] | one file a subcommand: arguments and printing |
//! | [`store`] | a run's SQLite database, and its exports |
//! | [`compint`] | the benchmark: constraints, injection, instances, metrics, runner |
//! | [`tasks`] | compact, extract, judge, probe: jobs over an engine; embed |
//! | [`engine`] | scheduler, sequences, sessions: requests in, completions out |
//! | [`model`] | the model families, over shared layers |
//! | [`decode`] | sampler, grammars, stop conditions, choice scores |
//! | [`chat`] | chat templates; splitting reasoning from answers |
//! | [`kv`] | paged cache: blocks, tables, groups, prefix cache |
//! | [`tokenizer`] | tokenizer.json and GGUF vocabularies |
//! | [`ops`] | operations over a backend: the CPU's kernels, and the binding of the CUDA kernels |
//! | [`weights`] | GGUF and safetensors; manifests and fetching |
//! | [`history`] | messages, histories, importers |
//!
//! # Invariants
//!
//! Architecture invariant: a result depends on its tokens alone, bit for bit: not on what else was in the batch, on
//! chunk boundaries, prefix hits, forks, preemption, threads or a restart. CUDA breaks it where candle multiplies matrices, and a
//! run record says so.
//!
//! Architecture invariant: attention needs scratch for a tile, whatever the context length.
//!
//! Architecture invariant: no panic on input. A damaged file or an impossible setting gives a typed error that names
//! the file, the field and the numbers.
//!
//! Architecture invariant: nothing is lost. A run killed at any instant resumes to the same results.
//!
//! Architecture invariant: honest numbers. What cannot be scored is counted and shown, never dropped.

pub mod chat;
pub mod cli;
pub mod compint;
pub mod decode;
pub mod engine;
pub mod history;
pub mod kv;
pub mod model;
pub mod ops;
pub mod store;
pub mod tasks;
pub mod tokenizer;
pub mod weights;

/// Compiles the README's example.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
