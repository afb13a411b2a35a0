//! What a model wrote against its format is read, and stands in the run's records.

use super::bench::{Bench, CONFIG};
use serde_json::{Value, json};

const CONTEXT: usize = 16_384;

/// `<|channel|>final B<|end|><|return|>`: a header without its `<|message|>`, in answer to any prompt (`assistant`).
const MALFORMED: [&str; 11] =
    ["t", "<|channel|>", "f", "i", "n", "a", "l", " ", "B", "<|end|>", "<|return|>"];

fn config() -> String {
    let tokens = ["max_tokens = 24", "max_tokens = 8", "max_tokens = 4"];
    tokens.iter().fold(CONFIG.to_owned(), |config, tokens| config.replace(tokens, "max_tokens = 32"))
}

#[test]
fn a_malformed_stream_is_read_and_recorded_with_every_result() {
    let bench = Bench::new(CONTEXT, 1);
    super::scripted::write_model(&bench.path().join("model"), CONTEXT, &MALFORMED);
    let ended = bench.run(&bench.config("c.toml", "out", &config()), &[]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    let rows = bench.lines("out", "400-top/llm_continuity/results.jsonl");
    assert!(rows.iter().all(|row| row["full_with_sc_output"] == "B"), "{}", rows[0]);
    assert!(rows.iter().all(|row| row["compacted"][0]["content"] == "B"), "{}", rows[0]);

    let missing = || json!(["missing_message_marker"]);
    for line in bench.lines("out", "400-top/llm_continuity/details.jsonl") {
        let recoveries = &line["recoveries"];
        for role in ["compact", "judge", "generate:full_with_sc", "generate:compaction", "choice:upper_bound"]
        {
            assert_eq!(recoveries[role], missing(), "{role}: {line}");
        }
        // One for each of the user's turns: three, and the one that states the constraint.
        let turns = recoveries["extract"].as_array().map_or(0, Vec::len);
        assert!(turns >= 3 && recoveries["extract"][0] == missing()[0], "{line}");
    }
    // `recent-2` has no output of its own.
    let details = &bench.lines("out", "400-top/recent-2/details.jsonl")[0];
    assert!(details["recoveries"].get("compact").is_none() && details["recoveries"].get("judge").is_some());

    let database = bench.database("out");
    let query = "SELECT kind, payload FROM results";
    let results: Vec<(String, String)> = database
        .prepare(query)
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut outputs = 0;
    for (kind, payload) in results {
        let payload: Value = serde_json::from_str(&payload).unwrap();
        match payload.get("turns").and_then(Value::as_array) {
            Some(turns) => outputs += turns.iter().filter(|turn| turn["recoveries"] == missing()).count(),
            None if payload["recoveries"] == missing() => outputs += 1,
            None => assert!(kind == "compact" && payload["text"].is_null(), "{kind}: {payload}"),
        }
    }
    let told = format!("{outputs} outputs broke their format");
    assert!(ended.stdout.contains(&told), "{told}: {}", ended.stdout);
    assert!(ended.stdout.contains("details.jsonl says: missing_message_marker"), "{}", ended.stdout);
}

#[test]
fn a_whole_stream_leaves_no_such_record() {
    let bench = Bench::new(CONTEXT, 1);
    let whole = ["t", "<|channel|>", "f", "i", "n", "a", "l", "<|message|>", "B", "<|return|>"];
    super::scripted::write_model(&bench.path().join("model"), CONTEXT, &whole);
    let ended = bench.run(&bench.config("c.toml", "out", &config()), &[]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert!(!ended.stdout.contains("broke their format"), "{}", ended.stdout);
    let rows = bench.lines("out", "400-top/recent-2/results.jsonl");
    assert!(rows.iter().all(|row| row["full_with_sc_output"] == "B"), "{}", rows[0]);
    for line in bench.lines("out", "400-top/recent-2/details.jsonl") {
        assert_eq!(line["recoveries"], json!({}), "{line}");
    }
}
