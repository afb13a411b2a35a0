//! Shapes that the stored checkpoints leave out: odd numbers of heads of 64 to 512 elements, one expert, windows larger than
//! the prompts; the longest prompt passes ten spans of 256 keys.

use std::collections::BTreeSet;

use crate::drawn::{SHAPES, described, drawn_fixture};
use crate::tiny::check_model;

fn check(name: &str) {
    check_model(&drawn_fixture(name), &described(name));
}

#[test]
fn llama_five_heads() {
    check("llama_five_heads");
}

#[test]
fn qwen3_seven_heads() {
    check("qwen3_seven_heads");
}

#[test]
fn qwen3_moe_three_heads() {
    check("qwen3_moe_three_heads");
}

#[test]
fn qwen3_moe_five_heads() {
    check("qwen3_moe_five_heads");
}

#[test]
fn gpt_oss_seven_heads() {
    check("gpt_oss_seven_heads");
}

#[test]
fn gpt_oss_wide_window() {
    check("gpt_oss_wide_window");
}

#[test]
fn gemma3_three_heads() {
    check("gemma3_three_heads");
}

#[test]
fn gemma3_five_heads() {
    check("gemma3_five_heads");
}

#[test]
fn gemma4_published_heads() {
    check("gemma4_published_heads");
}

#[test]
fn gemma4_five_heads() {
    check("gemma4_five_heads");
}

#[test]
fn qwen3_5_published_heads() {
    check("qwen3_5_published_heads");
}

#[test]
fn qwen3_5_five_heads() {
    check("qwen3_5_five_heads");
}

/// Each fixture is listed, so that the tests that go through the list leave none out.
#[test]
fn every_fixture_is_listed() {
    let folder = described("");
    let there = std::fs::read_dir(folder).unwrap();
    let there: BTreeSet<String> =
        there.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(there, SHAPES.iter().map(|name| (*name).to_owned()).collect());
}
