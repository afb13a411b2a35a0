//! Whole runs: what they export, what they reuse, what they refuse.

use super::bench::{Bench, CONFIG};
use serde_json::{Value, json};

const CONTEXT: usize = 8192;

#[test]
fn a_run_exports_every_file_and_a_second_one_does_nothing() {
    let bench = Bench::new(CONTEXT, 2);
    let config = bench.config("c.toml", "out", CONFIG);
    let first = bench.run(&config, &[]);
    assert_eq!(first.code, Some(0), "{}\n{}", first.stdout, first.stderr);
    let exports = bench.exports("out");
    let folders = ["recent-2", "llm_continuity", "llm_continuity+extractor"];
    for folder in folders {
        for file in ["results.jsonl", "summary.csv", "intervals.csv", "details.jsonl", "choice.jsonl"] {
            assert!(
                exports.contains_key(&format!("400-top/{folder}/{file}")),
                "{folder}/{file}: {exports:?}"
            );
        }
        let ids: Vec<Value> = bench
            .lines("out", &format!("400-top/{folder}/results.jsonl"))
            .iter()
            .map(|row| row["id"].clone())
            .collect();
        assert_eq!(ids, ["cellar-0:sc01", "cellar-0:sc13", "cellar-1:sc01", "cellar-1:sc13"]);
    }
    assert_eq!(exports.len(), 15);
    assert!(first.stdout.contains("judge not calibrated"), "{}", first.stdout);
    // Four instances: an extraction, four full probes of each kind twice, three compactors with judge and probes.
    let cells = 4 * (1 + 2 * 2 + 3 * (2 + 2 * 2));
    let (done, total, _) = first.results();
    assert_eq!((done, total), (cells, cells));

    let second = bench.run(&config, &[]);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert_eq!(second.results(), (cells, cells, cells));
    assert_eq!(second.prefill(), first.prefill());
    assert!(second.stderr.contains(", 0 tokens read and written"), "{}", second.stderr);
    assert_eq!(exports, bench.exports("out"));
}

#[test]
fn a_run_records_what_its_models_compute_by() {
    let bench = Bench::new(CONTEXT, 1);
    let ended = bench.run(&bench.config("c.toml", "out", CONFIG), &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let plan = bench.plan("out");
    let [model] = plan["models"].as_array().unwrap().as_slice() else { panic!("{plan}") };
    assert_eq!((&model["name"], &model["batch_invariant"]), (&json!("tiny"), &json!(true)), "{plan}");
    let arithmetic = model["arithmetic"].as_str().unwrap();
    assert!(arithmetic.starts_with("cpu/") && arithmetic.contains(" kv="), "{arithmetic}");
}

#[test]
fn columns_are_conpacts_in_its_order_and_full_probes_serve_every_compactor() {
    let bench = Bench::new(CONTEXT, 1);
    let config = bench.config("c.toml", "out", CONFIG);
    assert_eq!(bench.run(&config, &[]).code, Some(0));
    let recent = bench.lines("out", "400-top/recent-2/results.jsonl");
    let columns: Vec<&str> = recent[0].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "id",
        "source",
        "haystack_id",
        "target_length",
        "token_length",
        "position",
        "repeat",
        "strict",
        "direct",
        "sc_id",
        "sc_type",
        "compliant_letter",
        "compacted",
        "retention",
        "full_with_sc_output",
        "full_with_sc_compliant",
        "full_without_sc_output",
        "full_without_sc_compliant",
        "compaction_output",
        "compaction_compliant",
        "upper_bound_output",
        "upper_bound_compliant",
    ];
    assert_eq!(columns, expected);
    assert_eq!(recent[0]["compacted"].as_array().unwrap().len(), 2);
    assert!(recent[0]["retention"].is_boolean());
    let summarised = bench.lines("out", "400-top/llm_continuity/results.jsonl");
    for (one, other) in recent.iter().zip(&summarised) {
        assert_eq!(one["full_with_sc_output"], other["full_with_sc_output"]);
        assert_eq!(other["compacted"][0]["role"], "assistant");
        assert_ne!(one["compacted"], other["compacted"]);
    }
    let choice = &bench.lines("out", "400-top/recent-2/choice.jsonl")[0];
    let scores = choice["compaction"]["scores"].as_array().unwrap();
    let probability: f64 = scores.iter().map(|score| score["probability"].as_f64().unwrap()).sum();
    assert!((probability - 1.0).abs() < 1e-9);
    let csv = &bench.exports("out")["400-top/recent-2/summary.csv"];
    assert!(csv.starts_with(b"source,sc_type,n,retention_rate_pct,full_with_sc_compliance_pct"));
}

#[test]
fn prefilled_tokens_are_the_least() {
    let bench = Bench::new(CONTEXT, 3);
    let ended = bench.run(&bench.config("c.toml", "out", CONFIG), &[]);
    let (computed, least) = ended.prefill().unwrap_or_else(|| panic!("{}", ended.stdout));
    assert_eq!(computed, least, "{}", ended.stdout);
}

#[test]
fn a_later_run_on_the_same_histories_restores_its_prompts() {
    let bench = Bench::new(CONTEXT, 3);
    let folder = bench.path().join("kv");
    let args = ["--kv-cache", folder.to_str().unwrap()];
    let first = bench.run(&bench.config("a.toml", "first", CONFIG), &args);
    let later = bench.run(&bench.config("b.toml", "later", CONFIG), &args);
    assert_eq!((first.code, later.code), (Some(0), Some(0)), "{}", later.stderr);
    assert_eq!(bench.exports("first"), bench.exports("later"));
    let ((whole, least), (rest, _)) = (first.prefill().unwrap(), later.prefill().unwrap());
    assert_eq!(whole, least);
    // The rest of each prompt after its last whole block; some prompts are forks of others.
    assert!(rest < whole / 4, "{}", later.stdout);
    let restored = format!(": {} prompt tokens restored, 0 files", whole - rest);
    assert!(later.stdout.contains(&restored), "{}", later.stdout);
}

#[test]
fn an_added_compactor_does_the_new_work_alone_and_leaves_the_rest_as_it_was() {
    let bench = Bench::new(CONTEXT, 1);
    let small = CONFIG.replace("\"recent-2\", ", "");
    assert_eq!(bench.run(&bench.config("a.toml", "out", &small), &[]).code, Some(0));
    let before = bench.exports("out");
    let whole = bench.run(&bench.config("b.toml", "out", CONFIG), &[]);
    let (done, total, reused) = whole.results();
    // The new compactor's compaction, verdict and two conditions in two modes, for each of two instances.
    assert_eq!((done, total - reused), (total, 2 * (2 + 2 * 2)), "{}", whole.stderr);
    let after = bench.exports("out");
    assert!(before.iter().all(|(name, bytes)| after[name] == *bytes));
    assert_eq!(after.len(), before.len() + 5);

    let alone = bench.run(&bench.config("c.toml", "other", CONFIG), &[]);
    assert_eq!(alone.code, Some(0));
    assert_eq!(after, bench.exports("other"));
}

#[test]
fn failing_instances_are_recorded_with_their_cause_and_the_run_goes_on() {
    let bench = Bench::new(CONTEXT, 1);
    let cut_off = CONFIG.replace("cutoff = \"keep\"", "cutoff = \"fail\"");
    let ended = bench.run(&bench.config("c.toml", "out", &cut_off), &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("cut off after 24 tokens"), "{}", ended.stdout);
    let failed = bench.lines("out", "400-top/llm_continuity/details.jsonl");
    assert!(failed.iter().all(|line| {
        line["compaction_failure"]
            .as_str()
            .is_some_and(|failure| failure.starts_with("the summary was cut off after 24 tokens; "))
    }));
    let row = &bench.lines("out", "400-top/llm_continuity/results.jsonl")[0];
    assert!(
        row["retention"].is_null() && row["compaction_output"] == "" && row["compaction_compliant"].is_null()
    );
    // What does not need that compaction is there.
    assert!(bench.lines("out", "400-top/recent-2/results.jsonl")[0]["retention"].is_boolean());
    let again = bench.run(&bench.config("c.toml", "out", &cut_off), &[]);
    assert_eq!((again.code, again.prefill()), (Some(1), ended.prefill()));
    let (done, total, reused) = again.results();
    assert!(done == total && reused < total, "places that a failed compaction leaves empty are no results");
}

#[test]
fn what_a_small_pool_refused_is_tried_again_with_a_larger_one() {
    let bench = Bench::new(CONTEXT, 1);
    // A summary of so many tokens needs more than one mebibyte.
    let large = CONFIG.replace("max_tokens = 24\n[extract]", "max_tokens = 3000\n[extract]");
    let small = large.replace("kv_memory_mib = 16", "kv_memory_mib = 1");
    let refused = bench.run(&bench.config("c.toml", "out", &small), &[]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stdout.contains("engine.kv_memory_mib"), "{}", refused.stdout);
    assert_eq!(refused.results().2, 0, "{}", refused.stderr);
    let again = bench.run(&bench.config("c.toml", "out", &large), &[]);
    assert_eq!(again.code, Some(0), "{}", again.stdout);
}

#[test]
fn a_reader_that_has_gone_does_not_stop_a_run() {
    let bench = Bench::new(CONTEXT, 1);
    let ended = bench.run_unread(&bench.config("c.toml", "out", CONFIG));
    assert_eq!(ended, Some(0));
    assert!(!bench.exports("out").is_empty());
}

#[test]
fn prompts_longer_than_the_context_are_recorded_failures() {
    // The probe's prompt alone is longer than this.
    let bench = Bench::new(1024, 1);
    let ended = bench.run(&bench.config("c.toml", "out", CONFIG), &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let details = bench.lines("out", "400-top/recent-2/details.jsonl");
    let cause = details[0]["probe_causes"]["full_with_sc"].as_str().unwrap();
    assert!(cause.starts_with("failed: ") && cause.contains("1024"), "{cause}");
}

#[test]
fn unscored_answers_fail_a_strict_run_alone() {
    let bench = Bench::new(CONTEXT, 1);
    let config = bench.config("c.toml", "out", CONFIG);
    // A random model writes four random bytes where a letter is asked for.
    assert_eq!(bench.run(&config, &[]).code, Some(0));
    assert_eq!(bench.run(&config, &["--strict"]).code, Some(1));
}

#[test]
fn a_dry_run_says_what_it_would_take_and_writes_nothing() {
    let bench = Bench::new(CONTEXT, 1);
    let ended = bench.run(&bench.config("c.toml", "out", CONFIG), &["--dry-run"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for word in ["2 instances", "prefills", "not measured on this machine", "MiB"] {
        assert!(ended.stdout.contains(word), "{word}: {}", ended.stdout);
    }
    assert!(!bench.path().join("out").exists());
}

#[test]
fn damage_is_refused_by_file_and_field() {
    let bench = Bench::new(CONTEXT, 1);
    let refused = |text: &str, named: &[&str]| {
        let ended = bench.run(&bench.config("c.toml", "out", text), &[]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        for word in named {
            assert!(ended.stderr.contains(word), "{word}: {}", ended.stderr);
        }
    };
    refused(&CONFIG.replace("length = 400", "length = \"long\""), &["c.toml", "length"]);
    refused(&CONFIG.replace("[1, 13]", "[1, 99]"), &["c.toml", "protocol.constraints", "99"]);
    refused(&CONFIG.replace("model = \"model\"", "model = \"nowhere\""), &["tiny", "nowhere"]);
    refused(&CONFIG.replace("llm:continuity", "llm:unknown"), &["unknown", "structured"]);
    refused(&CONFIG.replace("length = 400", "length = 90000"), &["haystacks.jsonl", "90000"]);
    let file = bench.path().join("haystacks.jsonl");
    let whole = std::fs::read_to_string(&file).unwrap();
    for damaged in
        [&whole[..whole.len() / 2], &whole.replace("\"message_tokens\":[", "\"message_tokens\":[9,")]
    {
        std::fs::write(&file, damaged).unwrap();
        refused(CONFIG, &["haystacks.jsonl"]);
    }
    assert!(!bench.path().join("out").exists());
}

#[test]
fn typed_histories_keep_their_tool_results_for_masking() {
    let bench = Bench::new(CONTEXT, 1);
    let history = [
        r#"{"role":"user","content":[{"type":"text","text":"List the folder."}]}"#,
        r#"{"role":"assistant","content":[{"type":"tool_call","id":"1","name":"shell","arguments":"{}"}]}"#,
        r#"{"role":"tool","content":[{"type":"tool_result","call_id":"1","name":"shell","content":"a.txt b.txt"}]}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"Two files."}]}"#,
    ];
    std::fs::write(bench.path().join("h.jsonl"), history.join("\n")).unwrap();
    let text = CONFIG
        .replace("[haystacks]\nfiles = [\"haystacks.jsonl\"]\nlength = 400", "[history]\nfile = \"h.jsonl\"")
        .replace("\"recent-2\"", "\"mask-observations:0\"");
    let ended = bench.run(&bench.config("c.toml", "out", &text), &[]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    let row = &bench.lines("out", "h-top/mask-observations_0/results.jsonl")[0];
    let masked = row["compacted"][2]["content"].as_str().unwrap();
    assert!(masked.contains("left out") && !masked.contains("a.txt"), "{masked}");
    assert!(row["compacted"][0]["content"].as_str().unwrap().ends_with("\nList the folder."));
    // A flattened history has nothing to mask: a recorded failure.
    let flat = CONFIG.replace("\"recent-2\"", "\"mask-observations:0\"");
    let ended = bench.run(&bench.config("d.toml", "flat", &flat), &[]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stdout.contains("typed tool results"), "{}", ended.stdout);
}

#[test]
fn a_labelled_judge_is_measured_and_a_second_model_can_judge() {
    let bench = Bench::new(CONTEXT, 1);
    super::tiny::write_model(&bench.path().join("judge"), CONTEXT);
    let labels = [
        r#"{"sc_text":"Use tabs.","compacted":"[user]\nUse tabs.","human_retained":true}"#,
        r#"{"sc_text":"Use tabs.","compacted":"[user]\nHello.","human_retained":false}"#,
    ];
    std::fs::write(bench.path().join("labels.jsonl"), labels.join("\n")).unwrap();
    let text = CONFIG
        .replace("[judge]\nmodel = \"tiny\"", "[judge]\nmodel = \"other\"\nlabels = \"labels.jsonl\"")
        .replace("[engine]", "[models.other]\nmodel = \"judge\"\n[engine]");
    let config = bench.config("c.toml", "out", &text);
    let first = bench.run(&config, &[]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let judge = |ended: &super::bench::Ended| {
        ended.stdout.lines().find(|line| line.starts_with("judge against labels: ")).unwrap().to_owned()
    };
    assert!(
        judge(&first).contains("true-positive rate") && judge(&first).contains("kappa"),
        "{}",
        first.stdout
    );
    // Each of the two is loaded once.
    assert_eq!(first.stderr.matches("KV pool").count(), 2, "{}", first.stderr);
    let second = bench.run(&config, &[]);
    assert_eq!((judge(&second), second.stderr.matches("KV pool").count()), (judge(&first), 0));
    // The weights are the same, so the two models' results are as well.
    let alone = bench.run(&bench.config("d.toml", "alone", CONFIG), &[]);
    assert_eq!((alone.code, bench.exports("alone")), (Some(0), bench.exports("out")));
}

#[test]
fn one_history_of_a_file_and_settings_have_folders_of_their_own() {
    let bench = Bench::new(CONTEXT, 2);
    let other = "first = 1\n[[haystacks]]\nfiles = [\"haystacks.jsonl\"]\nlength = 200\nposition = \"multi\"\nrepeat = 2\nstrict = true\n";
    let text = CONFIG
        .replace("[haystacks]", "[[haystacks]]")
        .replace("length = 400\n", &format!("length = 400\n{other}"))
        .replace("mode = \"both\"", "mode = \"choice\"\nconditions = [\"compaction\"]");
    let ended = bench.run(&bench.config("c.toml", "out", &text), &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(bench.lines("out", "400-top/recent-2/results.jsonl").len(), 2);
    let rows = bench.lines("out", "200-multi2-strict/recent-2/results.jsonl");
    assert_eq!(
        (rows.len(), rows[0]["repeat"].as_u64(), rows[0]["strict"].as_bool()),
        (4, Some(2), Some(true))
    );
    assert!(rows.iter().all(|row| row.get("upper_bound_output").is_none()));
    // Under choice the likelier letter stands as the output.
    assert!(rows.iter().all(|row| row["compaction_output"] == "A" || row["compaction_output"] == "B"));
}
