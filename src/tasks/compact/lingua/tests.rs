use super::*;
use crate::chat::ChatTemplate;
use crate::engine::{Completion, Request, SequenceId};
use crate::tasks::compact::{CompactError, CompactJob, CompactionFailure, CompactionInput, CutoffPolicy};
use crate::tasks::mock::{ScriptedEngine, options, user};
use crate::tasks::{GenerationSettings, Inference, RunEnd, run_jobs};
use crate::tokenizer::Tokenizer;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const TINY: &str = "tiny-bert-base-multilingual-cased";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/encoders").join(name)
}

fn load(path: &Path) -> Result<LlmLingua2, LinguaError> {
    LlmLingua2::load(path, None, &mut |_, _| {})
}

fn input(texts: &[&str]) -> CompactionInput {
    CompactionInput {
        history: texts.iter().map(|text| user(text)).collect(),
        prompt: None,
        settings: GenerationSettings::default(),
        cutoff: CutoffPolicy::Fail,
        encoder: Some(Arc::new(load(&fixture(TINY)).unwrap())),
        constraints: None,
    }
}

/// A copy of the fixture with a changed config.
fn with_config(change: impl FnOnce(&mut Value)) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in ["model.safetensors", "tokenizer.json"] {
        std::fs::copy(fixture(TINY).join(file), folder.path().join(file)).unwrap();
    }
    let text = std::fs::read_to_string(fixture(TINY).join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    change(&mut config);
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    folder
}

#[test]
fn encoders_that_were_not_trained_for_it_are_refused() {
    let refused = |change: fn(&mut Value)| load(with_config(change).path()).err().unwrap();
    let error = refused(|config| config["architectures"] = json!(["BertModel"]));
    assert!(matches!(error, LinguaError::NotAClassifier { labels: None, .. }), "{error}");
    let error = refused(|config| config["model_type"] = json!("deberta-v2"));
    assert!(error.to_string().contains("deberta-v2"), "{error}");
    let error = refused(|config| config["hidden_act"] = json!("relu"));
    assert!(error.to_string().contains("hidden_act"), "{error}");
    let error = refused(|config| config["num_attention_heads"] = json!(3));
    assert!(error.to_string().contains("num_attention_heads"), "{error}");
    let error = refused(|config| config["vocab_size"] = json!(7));
    assert!(error.to_string().contains("word_embeddings"), "{error}");
    let error = refused(|config| config["num_hidden_layers"] = json!(3));
    assert!(error.to_string().contains("encoder.layer.2"), "{error}");
}

#[test]
fn rows_for_the_added_tokens_must_be_there() {
    let folder = with_config(|_| {});
    let path = folder.path().join("tokenizer.json");
    let mut file: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let size = file["model"]["vocab"].as_object().unwrap().len();
    file["model"]["vocab"]["one more"] = json!(size);
    std::fs::write(&path, file.to_string()).unwrap();
    let error = load(folder.path()).err().unwrap();
    assert!(
        matches!(error, LinguaError::NoRows { rows, last_id, .. } if last_id as usize == rows),
        "{error}"
    );
}

#[test]
fn a_history_becomes_one_message_of_its_words() {
    let texts = ["The north jetty is free. Is it?\nThe south jetty is taken by the race committee."; 3];
    let mut engine = ScriptedEngine::replies(vec![]);
    let job = CompactJob::new(&"llmlingua2:30".parse().unwrap(), input(&texts)).unwrap();
    let result = engine.run(job);
    assert_eq!((result.failure, result.messages.len()), (None, 1));
    assert!(result.tokens_after > 0 && result.tokens_after < result.tokens_before);
    assert!(result.usage.prompt_tokens > 0);
    let text = result.messages[0].plain_text();
    assert!(text.contains('?') && text.contains('\n'), "{text:?}");
    // Within its budget a history loses nothing.
    let whole = CompactJob::new(&"llmlingua2:5000".parse().unwrap(), input(&texts[..1])).unwrap();
    let result = engine.run(whole);
    let words = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(words(&result.messages[0].plain_text()), words(&format!("[user]: {}", texts[0])));
    assert_eq!(result.usage.prompt_tokens, 0);
}

#[test]
fn nothing_to_keep_and_no_encoder_are_said() {
    let spec = "llmlingua2".parse().unwrap();
    let error = CompactJob::new(&spec, CompactionInput { encoder: None, ..input(&["a"]) }).err();
    assert_eq!(error, Some(CompactError::NoEncoder { compactor: "llmlingua2:500".to_owned() }));
    let empty = CompactJob::new(&spec, input(&[])).unwrap();
    let result = ScriptedEngine::replies(vec![]).run(empty);
    assert_eq!((result.failure, result.messages.len()), (Some(CompactionFailure::Empty), 0));
}

#[test]
fn an_interruption_stops_between_windows() {
    /// Notes how far own work is, and interrupts after the second part.
    struct Noted(Vec<(usize, usize)>, Arc<AtomicBool>, ScriptedEngine);
    impl Inference for Noted {
        fn submit(&mut self, _: Request) -> Result<SequenceId, EngineError> {
            panic!("llmlingua2 asks an engine for nothing")
        }
        fn step(&mut self) -> Result<Vec<Completion>, EngineError> {
            self.2.step()
        }
        fn has_work(&self) -> bool {
            self.2.has_work()
        }
        fn cancel(&mut self, id: SequenceId) {
            self.2.cancel(id);
        }
        fn tokenizer(&self) -> Result<&Tokenizer, EngineError> {
            self.2.tokenizer()
        }
        fn template(&self) -> Result<&ChatTemplate, EngineError> {
            self.2.template()
        }
        fn context_length(&self) -> usize {
            self.2.context_length()
        }
        fn own_work(&mut self, done: usize, total: usize) {
            self.0.push((done, total));
            self.1.store(self.0.len() == 2, Ordering::Relaxed);
        }
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut engine = Noted(Vec::new(), interrupted.clone(), ScriptedEngine::replies(vec![]));
    let texts: Vec<String> = (0..20).map(|index| format!("Boat {index} is in the harbour.")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let job = CompactJob::new(&"llmlingua2:10".parse().unwrap(), input(&texts)).unwrap();
    let mut take = |(), _| -> ControlFlow<()> { panic!("the job was interrupted") };
    let end = run_jobs(&mut engine, std::iter::once(((), job)), &options(1), &mut take, &interrupted);
    assert_eq!(end.unwrap(), RunEnd::Interrupted);
    assert_eq!(engine.0, [(4, 20), (8, 20)]);
}
