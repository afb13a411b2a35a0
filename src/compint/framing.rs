//! How a constraint is worded in the history: strict, direct, both or neither (paper, section 4.3).

/// Frames a constraint: `strict` calls it important, `direct` names the rest of the session as its scope.
///
/// With a framing the constraint's first character is lowered, as Python's `str.lower` lowers one character.
pub fn frame(text: &str, strict: bool, direct: bool) -> String {
    let prefix = match (strict, direct) {
        (false, false) => return text.to_owned(),
        (true, true) => "This is an important constraint: for the rest of this session. ",
        (false, true) => "For the rest of this session. ",
        (true, false) => "This is an important constraint: ",
    };
    let mut characters = text.chars();
    let first: String = characters.next().map(|c| c.to_lowercase().collect()).unwrap_or_default();
    format!("{prefix}{first}{}", characters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_framing() {
        assert_eq!("Émile: Do it.", frame("Émile: Do it.", false, false));
        assert_eq!("For the rest of this session. émile: Do it.", frame("Émile: Do it.", false, true));
        assert_eq!("This is an important constraint: i̇x", frame("İx", true, false));
        assert_eq!(
            "This is an important constraint: for the rest of this session. no.",
            frame("No.", true, true)
        );
    }
}
