use super::*;
use crate::chat::Adaptation;
use crate::compint::runner::{NewResult, RecordedPrompt, ResultSink, RunPlan};
use crate::engine::EngineStats;
use std::path::Path;

fn open(folder: &Path) -> RunStore {
    RunStore::open(folder).unwrap()
}

fn result(key: &str, depends_on_pool: bool) -> NewResult {
    NewResult { key: key.into(), kind: "judge", payload: "{}".into(), seconds: 0.5, depends_on_pool }
}

fn plan() -> RunPlan {
    RunPlan {
        settings: vec![],
        compactors: vec![],
        conditions: vec![],
        generates: true,
        chooses: false,
        seed: 1,
        models: vec![],
    }
}

fn prompt(load: i64, request: u8, tokens: impl IntoIterator<Item = u32>) -> RecordedPrompt {
    RecordedPrompt {
        load,
        request: [request; 32],
        tokens: tokens.into_iter().collect(),
        adaptations: Vec::new(),
    }
}

#[test]
fn adapted_prompts_are_counted_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let load = store.open_load("m", 4).unwrap();
    let adapted = |request, adaptations: &[Adaptation]| RecordedPrompt {
        adaptations: adaptations.to_vec(),
        ..prompt(load, request, 0..5)
    };
    let both = [Adaptation::FoldedIntoSystem, Adaptation::MergedEqualRoles];
    store.put(&result("a", false), &[adapted(1, &[]), adapted(2, &both), adapted(3, &both)]).unwrap();
    let counts = store.prefill().unwrap().adapted;
    assert_eq!(
        counts.into_iter().collect::<Vec<_>>(),
        [("folded_into_system,merged_equal_roles".to_owned(), 2)]
    );
}

#[test]
fn recovered_outputs_are_counted_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let put = |store: &mut RunStore, key: &str, payload: serde_json::Value| {
        store.put(&NewResult { payload: payload.to_string(), ..result(key, false) }, &[]).unwrap();
    };
    let two = serde_json::json!(["missing_start", {"stray_marker": {"marker": "<|end|>"}}, "missing_start"]);
    put(&mut store, "a", serde_json::json!({"outcome": "scored", "recoveries": two}));
    // One list for each turn; one turn has none.
    let turns = serde_json::json!([{"recoveries": ["missing_start"]}, {}, {"recoveries": two}]);
    put(&mut store, "b", serde_json::json!({"turns": turns}));
    // Words of a message are no record.
    put(&mut store, "c", serde_json::json!({"text": "{\"recoveries\": [\"missing_start\"]}"}));
    let counts: Vec<_> = store.recovered().unwrap().into_iter().collect();
    assert_eq!(counts, [("missing_start".to_owned(), 1), ("missing_start,stray_marker".to_owned(), 2)]);
    put(&mut store, "d", serde_json::json!({"recoveries": ["of another build"]}));
    let refused = store.recovered().err().unwrap().to_string();
    assert!(refused.contains("recoveries of result d"), "{refused}");
}

#[test]
fn the_least_counts_shared_blocks_once_and_rests_always() {
    let count = |prompts: &[Vec<u32>]| {
        let mut least = LeastPrefill::new(4);
        prompts.iter().for_each(|prompt| least.add(prompt));
        least.tokens()
    };
    let long: Vec<u32> = (0..9).collect();
    assert_eq!(count(std::slice::from_ref(&long)), 9);
    // The same prompt for another request: its last token again.
    assert_eq!(count(&[long.clone(), long.clone()]), 10);
    // A complete last block must be computed for its logits.
    assert_eq!(count(&[(0..8).collect(), (0..8).collect()]), 12);
    // Two blocks shared, two rests.
    assert_eq!(count(&[long.clone(), [(0..8).collect::<Vec<_>>(), vec![77, 78]].concat()]), 11);
    // Equal blocks after different ones are not the same.
    assert_eq!(count(&[vec![1, 1, 1, 1, 5, 5, 5, 5, 9], vec![2, 2, 2, 2, 5, 5, 5, 5, 9]]), 18);
    assert_eq!(count(&[vec![]]), 0);
}

#[test]
fn prompts_come_back_as_they_were_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    let load = store.open_load("m", 4).unwrap();
    let other = store.open_load("n", 4).unwrap();
    let prompts = [
        prompt(load, 1, 0..100),
        prompt(load, 2, (0..90).chain(500..520)),
        prompt(load, 3, 7..9),
        prompt(load, 1, 0..100),
        prompt(other, 1, 0..100),
    ];
    store.put(&result("a", false), &prompts).unwrap();
    let stats = EngineStats { prefilled_tokens: 300, ..EngineStats::default() };
    store.update_load(load, &stats).unwrap();
    store.update_load(other, &stats).unwrap();
    let expected = 25 * 4 + (110 - 88) + 2 + 100;
    let count = store.prefill().unwrap();
    assert_eq!((count.prompts, count.prompt_tokens, count.least), (4, 312, expected));
    assert_eq!((count.prefilled, count.loads), (600, 2));

    // A later session computes one of them again, and one that is new.
    let later = store.open_load("m", 4).unwrap();
    store
        .put(&result("b", false), &[prompt(later, 2, (0..90).chain(500..520)), prompt(later, 4, 7..9)])
        .unwrap();
    let count = store.prefill().unwrap();
    assert_eq!((count.prompts, count.least, count.loads), (5, expected + 2, 2));
    let size: i64 = store
        .connection
        .query_row("SELECT sum(length(rest)) FROM prompts WHERE load = 1", [], |row| row.get(0))
        .unwrap();
    assert_eq!(size, 4 * (100 + 20 + 2));
}

#[test]
fn results_stay_and_those_of_another_pool_are_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    store.begin(&plan(), "small", &mut std::iter::empty()).unwrap();
    store.put(&result("kept", false), &[]).unwrap();
    store.put(&result("refused", true), &[]).unwrap();
    drop(store);
    let mut store = open(folder.path());
    store.begin(&plan(), "small", &mut std::iter::empty()).unwrap();
    assert_eq!(store.num_results().unwrap(), 2);
    store.begin(&plan(), "large", &mut std::iter::empty()).unwrap();
    assert_eq!((store.get("kept").unwrap().as_deref(), store.get("refused").unwrap()), (Some("{}"), None));
}

#[test]
fn the_date_is_the_first_ones_unless_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(folder.path());
    assert_eq!(store.fix_date(None, "2026-01-01").unwrap(), "2026-01-01");
    assert_eq!(store.fix_date(None, "2026-02-02").unwrap(), "2026-01-01");
    assert_eq!(store.fix_date(Some("2025-05-05"), "2026-02-02").unwrap(), "2025-05-05");
    assert_eq!(store.fix_date(None, "2026-02-02").unwrap(), "2025-05-05");
}

#[test]
fn a_second_process_and_damage_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    assert!(matches!(RunStore::open(folder.path()), Err(StoreError::InUse { .. })));
    store.connection.execute("UPDATE meta SET value = '0' WHERE name = 'format'", []).unwrap();
    drop(store);
    let refused = RunStore::open(folder.path()).err().unwrap();
    assert!(refused.to_string().contains("has format 0; this build reads 2"), "{refused}");
    std::fs::write(
        folder.path().join("run.sqlite"),
        "not a database, but long enough to be read as one".repeat(9),
    )
    .unwrap();
    assert!(matches!(RunStore::open(folder.path()), Err(StoreError::Database { .. })));
}
