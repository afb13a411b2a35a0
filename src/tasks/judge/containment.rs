//! A check without a model: is the constraint's text in the context?

use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// How much of a constraint's text a context holds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Containment {
    /// Whether the whole text occurs, with case, punctuation and whitespace folded, at word edges.
    pub contained: bool,
    /// Of the text's distinct content words, the fraction that occur anywhere. `None` where it has no content word.
    pub content_words: Option<f64>,
}

/// English words that carry no content of their own.
const FUNCTION_WORDS: [&str; 93] = [
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "before", "being", "but", "by", "can", "could", "did", "do", "does", "during", "each", "for",
    "from", "had", "has", "have", "he", "her", "here", "him", "his", "how", "i", "if", "in", "into", "is",
    "it", "its", "just", "let", "may", "me", "might", "must", "my", "of", "on", "or", "our", "out", "please",
    "shall", "she", "should", "so", "some", "such", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "this", "those", "to", "too", "under", "up", "us", "was", "we", "were", "what", "when",
    "where", "which", "while", "who", "will", "with", "would", "you", "your",
];

/// Looks for `constraint` in `context`.
///
/// Both are folded to lower case and to words of letters and digits; apostrophes vanish (`don't` is `dont`), other
/// marks part words. A paraphrase is not contained, so this is a lower bound of what a judge should find.
pub fn containment(constraint: &str, context: &str) -> Containment {
    let needle = words(constraint);
    let hay = words(context);
    let contained =
        !needle.is_empty() && format!(" {} ", hay.join(" ")).contains(&format!(" {} ", needle.join(" ")));
    let present: HashSet<&str> = hay.iter().map(String::as_str).collect();
    let wanted: HashSet<&str> = needle
        .iter()
        .map(String::as_str)
        .filter(|word| FUNCTION_WORDS.binary_search(word).is_err())
        .collect();
    let found = wanted.iter().filter(|word| present.contains(*word)).count();
    let content_words = (!wanted.is_empty()).then(|| found as f64 / wanted.len() as f64);
    Containment { contained, content_words }
}

fn words(text: &str) -> Vec<String> {
    let lower: String = text
        .chars()
        .filter(|character| !matches!(character, '\'' | '’' | '‘'))
        .flat_map(char::to_lowercase)
        .collect();
    lower
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_punctuation_and_whitespace_fold() {
        let constraint = "Don't send e-mails on my behalf!";
        for context in ["... don’t  SEND\ne-mails, on my behalf.", "user: Dont send e mails on my behalf"] {
            assert_eq!(
                containment(constraint, context),
                Containment { contained: true, content_words: Some(1.0) },
                "{context}"
            );
        }
    }

    #[test]
    fn a_paraphrase_counts_by_its_content_words() {
        // Content words: never, send, emails; "draft" and "them" do not help.
        let found = containment("Never send emails for me", "Draft emails; they must not be sent, never.");
        assert_eq!(found, Containment { contained: false, content_words: Some(2.0 / 3.0) });
    }

    #[test]
    fn words_are_matched_whole() {
        assert!(!containment("use tabs", "reuse tabs").contained);
        assert!(!containment("use tabs", "use tabsets").contained);
        assert_eq!(containment("use tabs", "reuse tabsets").content_words, Some(0.0));
    }

    #[test]
    fn nothing_is_not_contained() {
        assert_eq!(containment("?!", "anything"), Containment { contained: false, content_words: None });
        assert_eq!(containment("the", "it is the one"), Containment { contained: true, content_words: None });
        assert!(!containment("a b", "").contained);
    }

    #[test]
    fn the_word_list_can_be_searched() {
        assert!(FUNCTION_WORDS.is_sorted());
    }
}
