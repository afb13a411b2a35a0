//! Cached keys, values and states in files, so that a later process need not compute them again.
//!
//! A file holds pages and states of one sequence, with the tokens they belong to. It is bound to the weights, the rope
//! settings, the element type, the block size, the arithmetic and the token ids they came from ([`KvIdentity`]); whatever does
//! not match is refused with the reason. Two uses:
//!
//! * a *session file* holds all that one sequence needs to go on, the partly filled last block included;
//! * a [`KvDirectory`] holds the prefixes of many sequences, cut into files that those with a common beginning share.
//!
//! # Format
//! All integers are little-endian.
//! 1. 8 bytes `LWICK-KV`, `u32` version, `u32` length of the header;
//! 2. the header, JSON: see `header::Header`;
//! 3. token ids, `u32` each, from the header's first block to its last token;
//! 4. pages, then state slots, in the header's order, as they stand in memory;
//! 5. sha256 of everything before it.

mod chain;
mod directory;
mod error;
mod files;
mod header;
mod identity;
mod load;
mod reader;
mod save;
mod writer;

#[cfg(test)]
mod tests;

pub use directory::{DirectoryUse, KvDirectory};
pub use error::KvFileError;
pub use identity::KvIdentity;
