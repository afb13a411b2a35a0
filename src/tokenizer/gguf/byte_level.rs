//! Byte-level BPE with a list of merges (`tokenizer.ggml.model` is `gpt2`).
use std::collections::HashMap;

use tokenizers::{decoders::byte_level::ByteLevel, models::bpe::BPE};

use super::{
    Built, GgufVocabulary, Spelling, TokenizerError, added_tokens, listed_merges, pre_tokenizer, unbuildable,
};

pub(super) fn build(vocabulary: &GgufVocabulary) -> Result<Built, TokenizerError> {
    let pre = pre_tokenizer::find(vocabulary.pre.as_deref())?;
    let merges = listed_merges(vocabulary)?;
    let mut ids: HashMap<String, u32> = HashMap::with_capacity(vocabulary.tokens.len());
    for (id, token) in vocabulary.tokens.iter().enumerate() {
        // Padding entries may share a text; the first of them is the one that merges may yield.
        ids.entry(token.clone()).or_insert(id as u32);
    }
    let model = BPE::builder().vocab_and_merges(ids.into_iter().collect::<Vocabulary>(), merges);
    let model = model.ignore_merges(pre.whole_words_first).build().map_err(unbuildable)?;

    let mut inner = tokenizers::Tokenizer::new(model);
    inner.with_normalizer(pre.normalizer());
    inner.with_pre_tokenizer(Some(pre.build()?));
    inner.with_decoder(Some(ByteLevel::default()));
    inner.add_tokens(&added_tokens(vocabulary, str::to_owned));
    Ok((inner, Spelling::ByteLevel, pre.add_bos))
}

type Vocabulary = tokenizers::models::bpe::Vocab;
