//! Cutting a history to a length, and putting a constraint into it (the paper's Inj operator).

use super::pyrandom::PyRandom;
use crate::history::FlatMessage;
use serde::{Deserialize, Serialize};

/// Where in a history a constraint stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Position {
    /// The first user turn.
    Top,
    /// The median user turn (the later of two).
    Middle,
    /// The last user turn.
    Bottom,
    /// Several user turns, drawn without replacement.
    Multi,
    /// Where its author put it: published natural instances have it, builders cannot.
    Native,
}

impl Position {
    /// The positions a builder takes.
    pub const BUILDABLE: [&'static str; 4] = ["top", "middle", "bottom", "multi"];

    /// The name as instances spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Top => "top",
            Self::Middle => "middle",
            Self::Bottom => "bottom",
            Self::Multi => "multi",
            Self::Native => "native",
        }
    }

    /// The buildable position of that name.
    pub fn buildable(name: &str) -> Option<Self> {
        [Self::Top, Self::Middle, Self::Bottom, Self::Multi]
            .into_iter()
            .find(|position| position.as_str() == name)
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The longest prefix of at most `length` tokens: how many messages, and how many tokens they are.
pub fn cut(message_tokens: &[usize], length: usize) -> (usize, usize) {
    let mut total: usize = 0;
    for (index, tokens) in message_tokens.iter().enumerate() {
        match total.checked_add(*tokens).filter(|sum| *sum <= length) {
            Some(sum) => total = sum,
            None => return (index, total),
        }
    }
    (message_tokens.len(), total)
}

/// Indices of the user turns.
pub fn user_turns(messages: &[FlatMessage]) -> Vec<usize> {
    (0..messages.len()).filter(|index| messages[*index].role == "user").collect()
}

/// Which of `user_turns` (not empty) carry the constraint, ascending. Only [`Position::Multi`] draws, `repeat` turns or
/// all there are; [`Position::Native`] chooses none.
pub fn choose_turns(
    user_turns: &[usize],
    position: Position,
    repeat: usize,
    random: &mut PyRandom,
) -> Vec<usize> {
    let single = match position {
        Position::Top => user_turns.first(),
        Position::Middle => user_turns.get(user_turns.len() / 2),
        Position::Bottom => user_turns.last(),
        Position::Native => None,
        Position::Multi => {
            let mut chosen = random.sample(user_turns, repeat.min(user_turns.len()));
            chosen.sort_unstable();
            return chosen;
        }
    };
    single.copied().into_iter().collect()
}

/// The messages with `constraint` on a line of its own before the content of each turn in `turns`.
pub fn inject(messages: &[FlatMessage], constraint: &str, turns: &[usize]) -> Vec<FlatMessage> {
    let mut injected = messages.to_vec();
    for turn in turns {
        let message = &mut injected[*turn];
        message.content = format!("{constraint}\n{}", message.content);
    }
    injected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_keeps_whole_messages_up_to_the_length() {
        assert_eq!((2, 5), cut(&[2, 3, 1], 5));
        assert_eq!((0, 0), cut(&[6, 1], 5));
        assert_eq!((3, 5), cut(&[0, 5, 0, 1], 5));
        assert_eq!((2, 3), cut(&[1, 2], 9));
        assert_eq!((1, 1), cut(&[1, usize::MAX], usize::MAX));
    }

    #[test]
    fn single_positions_do_not_draw() {
        let mut random = PyRandom::new(1);
        let turns = [1, 4, 6, 9];
        for (position, expected) in [(Position::Top, 1), (Position::Middle, 6), (Position::Bottom, 9)] {
            assert_eq!(vec![expected], choose_turns(&turns, position, 1, &mut random));
        }
        assert_eq!(0.13436424411240122, random.random());
    }

    #[test]
    fn multi_takes_all_turns_where_there_are_fewer() {
        assert_eq!(vec![1, 4], choose_turns(&[1, 4], Position::Multi, 30, &mut PyRandom::new(1)));
    }
}
