//! A scripted engine with a small real tokenizer and template, for the tests of the tasks.

use super::{GenerationSettings, Inference, Job, RunEnd, RunOptions, run_jobs};
use crate::chat::ChatTemplate;
use crate::decode::ChoiceScores;
use crate::engine::{
    Completion, EngineError, FinishReason, GrammarStart, Request, RequestKind, RequestOutput, SequenceId,
};
use crate::history::{ContentPart, Message, Role, ToolCall, ToolResult};
use crate::tokenizer::{SpecialTokens, Tokenizer};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;

/// What the engine answers to one request.
pub(super) enum Reply {
    /// Generates this text, which ends by itself.
    Text(&'static str),
    /// Generates this text and is cut off.
    CutOff(&'static str),
    /// Scores the continuations with these log-probabilities.
    Scores(Vec<Vec<f32>>),
    /// Fails this request alone.
    Fails(&'static str),
    /// Refuses it: too long.
    TooLong,
    /// Breaks down at the step.
    Breaks,
    /// Takes it and forgets it.
    Loses,
}

type Script = Box<dyn FnMut(usize, &Request) -> Reply>;

pub(super) struct ScriptedEngine {
    tokenizer: Tokenizer,
    template: ChatTemplate,
    script: Script,
    /// All requests, in the order they came.
    pub(super) requests: Vec<Request>,
    pending: Vec<(SequenceId, Reply)>,
    pub(super) cancelled: Vec<SequenceId>,
    /// The most requests that were under way at once.
    pub(super) most_pending: usize,
    /// Answer the newest first, to shuffle the order of completion.
    pub(super) newest_first: bool,
}

const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

const REASONING_CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n\
    {% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif %}";

/// Opens the reasoning itself, so that an output begins in the middle of it.
const OPEN_REASONING_CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}{# </think> #}";

/// GPT-2's byte alphabet: printable bytes stand for themselves, the others for characters from U+0100 on.
fn byte_alphabet() -> Vec<char> {
    let is_printable = |byte: u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut next = 0x100;
    (0..=255u8)
        .map(|byte| {
            if is_printable(byte) {
                return char::from(byte);
            }
            next += 1;
            char::from_u32(next - 1).unwrap()
        })
        .collect()
}

/// Byte-level BPE over single bytes, with `\nA` as the one merged token: an option joins the line break before it.
pub(super) fn tokenizer() -> Tokenizer {
    let mut vocabulary = serde_json::Map::new();
    for (id, character) in byte_alphabet().into_iter().enumerate() {
        vocabulary.insert(character.to_string(), id.into());
    }
    vocabulary.insert("ĊA".to_owned(), 256.into());
    let added = |id: u32, content: &str, special: bool| {
        serde_json::json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": special})
    };
    let file = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "added_tokens": [added(257, "<|im_start|>", true), added(258, "<|im_end|>", true), added(259, "<think>", false),
            added(260, "</think>", false)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false},
        "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "vocab": vocabulary,
            "merges": ["Ċ A"]},
    });
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, file.to_string()).unwrap();
    std::fs::write(
        folder.path().join("tokenizer_config.json"),
        "{\"eos_token\":\"<|im_end|>\",\"add_bos_token\":false}",
    )
    .unwrap();
    Tokenizer::from_file(&path).unwrap()
}

impl ScriptedEngine {
    /// A model that does not reason.
    pub(super) fn new(script: impl FnMut(usize, &Request) -> Reply + 'static) -> Self {
        Self::with_template(CHATML, script)
    }

    /// A model that reasons unless thinking is switched off.
    pub(super) fn reasoning(script: impl FnMut(usize, &Request) -> Reply + 'static) -> Self {
        Self::with_template(REASONING_CHATML, script)
    }

    /// Answers the requests one after another with `replies`.
    pub(super) fn replies(replies: Vec<Reply>) -> Self {
        let mut replies = replies.into_iter();
        Self::new(move |_, _| replies.next().expect("more requests than replies"))
    }

    /// As [`ScriptedEngine::replies`], for a model that reasons.
    pub(super) fn reasoning_replies(replies: Vec<Reply>) -> Self {
        let mut replies = replies.into_iter();
        Self::reasoning(move |_, _| replies.next().expect("more requests than replies"))
    }

    /// As [`ScriptedEngine::replies`], for a model whose template opens the reasoning.
    pub(super) fn open_reasoning_replies(replies: Vec<Reply>) -> Self {
        let mut replies = replies.into_iter();
        Self::with_template(OPEN_REASONING_CHATML, move |_, _| {
            replies.next().expect("more requests than replies")
        })
    }

    fn with_template(jinja: &str, script: impl FnMut(usize, &Request) -> Reply + 'static) -> Self {
        let tokenizer = tokenizer();
        let template = ChatTemplate::from_jinja(jinja, &tokenizer).unwrap();
        Self::of(tokenizer, template, script)
    }

    /// A model with another model's tokenizer and template.
    pub(super) fn of(
        tokenizer: Tokenizer,
        template: ChatTemplate,
        script: impl FnMut(usize, &Request) -> Reply + 'static,
    ) -> Self {
        Self {
            tokenizer,
            template,
            script: Box::new(script),
            requests: Vec::new(),
            pending: Vec::new(),
            cancelled: Vec::new(),
            most_pending: 0,
            newest_first: false,
        }
    }

    /// The text of a request's prompt.
    pub(super) fn prompt(&self, index: usize) -> String {
        self.tokenizer.decode(&self.requests[index].prompt)
    }

    /// Runs one job to its end.
    pub(super) fn run<J: Job>(&mut self, job: J) -> J::Output {
        let mut outputs = self.run_all(vec![job]);
        outputs.pop().unwrap()
    }

    /// Runs jobs one at a time; outputs in order.
    pub(super) fn run_all<J: Job>(&mut self, jobs: Vec<J>) -> Vec<J::Output> {
        let mut outputs = Vec::new();
        let end = run_jobs(
            self,
            jobs.into_iter().enumerate(),
            &options(1),
            &mut |_, output| {
                outputs.push(output);
                ControlFlow::Continue(())
            },
            &AtomicBool::new(false),
        );
        assert_eq!(end.unwrap(), RunEnd::Finished);
        outputs
    }
}

impl Inference for ScriptedEngine {
    fn submit(&mut self, request: Request) -> Result<SequenceId, EngineError> {
        let index = self.requests.len();
        let reply = (self.script)(index, &request);
        self.requests.push(request);
        if matches!(reply, Reply::TooLong) {
            return Err(EngineError::ContextExceeded { prompt: 20_000, limit: 10_000 });
        }
        let id = SequenceId(index as u64);
        self.pending.push((id, reply));
        self.most_pending = self.most_pending.max(self.pending.len());
        Ok(id)
    }

    fn step(&mut self) -> Result<Vec<Completion>, EngineError> {
        if self.pending.iter().any(|(_, reply)| matches!(reply, Reply::Breaks)) {
            return Err(EngineError::ContextExceeded { prompt: 1, limit: 0 });
        }
        if self.pending.is_empty() {
            return Ok(Vec::new());
        }
        let (id, reply) =
            if self.newest_first { self.pending.pop().unwrap() } else { self.pending.remove(0) };
        let request = &self.requests[id.0 as usize];
        let generated = |text: &str, finish_reason| RequestOutput::Generated {
            token_ids: self.tokenizer.encode(text, SpecialTokens::Parse).unwrap(),
            text: text.to_owned(),
            finish_reason,
            logprobs: Vec::new(),
        };
        let output = match reply {
            Reply::Text(text) => generated(text, FinishReason::Stop),
            Reply::CutOff(text) => generated(text, FinishReason::Length),
            Reply::Scores(scores) => RequestOutput::Scored(ChoiceScores::from_logprobs(&scores)),
            Reply::Fails(message) => RequestOutput::Failed(message.to_owned()),
            Reply::TooLong | Reply::Breaks => unreachable!("handled before"),
            Reply::Loses => return Ok(Vec::new()),
        };
        let prefilled_tokens = request.prompt.len() - 1;
        Ok(vec![Completion { id, output, cached_tokens: 1, prefilled_tokens, seconds: 0.5 }])
    }

    fn has_work(&self) -> bool {
        !self.pending.is_empty()
    }

    fn cancel(&mut self, id: SequenceId) {
        self.pending.retain(|(pending, _)| *pending != id);
        self.cancelled.push(id);
    }

    fn tokenizer(&self) -> Result<&Tokenizer, EngineError> {
        Ok(&self.tokenizer)
    }

    fn template(&self) -> Result<&ChatTemplate, EngineError> {
        Ok(&self.template)
    }

    fn context_length(&self) -> usize {
        10_000
    }
}

pub(super) fn options(max_in_flight: usize) -> RunOptions {
    RunOptions { max_in_flight: NonZeroUsize::new(max_in_flight).unwrap(), date: "2026-01-01".to_owned() }
}

/// Settings under which the reasoning template does not reason.
pub(super) fn without_thinking() -> GenerationSettings {
    GenerationSettings { thinking: Some(false), ..GenerationSettings::default() }
}

pub(super) fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

pub(super) fn assistant(text: &str) -> Message {
    Message::text(Role::Assistant, text)
}

/// An assistant message with a tool call.
pub(super) fn call(id: &str) -> Message {
    let call = ToolCall { id: Some(id.to_owned()), name: "run".to_owned(), arguments: "{}".to_owned() };
    Message { content: vec![ContentPart::ToolCall(call)], ..assistant("") }
}

/// What the tool answered.
pub(super) fn result(id: &str, content: &str) -> Message {
    let result = ToolResult {
        call_id: Some(id.to_owned()),
        name: Some("run".to_owned()),
        content: content.to_owned(),
    };
    Message { content: vec![ContentPart::ToolResult(result)], ..Message::text(Role::Tool, "") }
}

/// The kind and the grammar start of a generate request.
pub(super) fn grammar_start(request: &Request) -> Option<GrammarStart> {
    match &request.kind {
        RequestKind::Generate(params) => params.grammar.as_ref().map(|(_, start)| start.clone()),
        _ => panic!("not a generate request"),
    }
}
