//! Python's text operations where Rust's differ: the published prompts were rendered with them.

/// `str.strip()`: Python also strips the four separators U+001C to U+001F, which Unicode's White_Space lacks.
pub fn strip(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}

/// `textwrap.dedent(text)` as CPython 3.10 to 3.13 compute it.
///
/// Lines end at `\n` alone. A line of only spaces and tabs becomes empty and does not count; the longest common prefix
/// of spaces and tabs of the others is cut. Values put into an indented template before dedenting take part: one line
/// of a value at column 0 leaves every indent in place.
pub fn dedent(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').map(|line| if is_blank(line) { "" } else { line }).collect();
    let margin = lines
        .iter()
        .filter(|line| !line.is_empty())
        .map(|line| indent_of(line))
        .reduce(common_prefix)
        .unwrap_or("");
    let cut: Vec<&str> = lines.iter().map(|line| line.strip_prefix(margin).unwrap_or(line)).collect();
    cut.join("\n")
}

fn is_blank(line: &str) -> bool {
    line.chars().all(|c| c == ' ' || c == '\t')
}

fn indent_of(line: &str) -> &str {
    let rest = line.trim_start_matches([' ', '\t']);
    &line[..line.len() - rest.len()]
}

/// Both indents are ASCII, so a byte index is a character boundary.
fn common_prefix<'a>(left: &'a str, right: &'a str) -> &'a str {
    let shared = left.bytes().zip(right.bytes()).take_while(|(a, b)| a == b).count();
    &left[..shared]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strip_takes_what_python_takes() {
        assert_eq!("a\u{200b}", strip("\u{1c}\u{1f} \u{a0}\u{3000}a\u{200b}\u{2028}\n\u{85}"));
    }

    // The expected values are textwrap.dedent's of python3.11 on the same inputs.
    #[test]
    fn dedent_equals_textwrap() {
        for (input, expected) in [
            ("", ""),
            ("  ", ""),
            ("a", "a"),
            ("  a\n    b\n", "a\n  b\n"),
            ("  a\nb\n", "  a\nb\n"),
            ("  a\n\t\n  b", "a\n\nb"),
            ("    \n  a\n      \n  b\n ", "\na\n\nb\n"),
            ("\ta\n  b", "\ta\n  b"),
            (" \ta\n \tb\n  c", "\ta\n\tb\n c"),
            ("  a\r\n  b\r\n  \r\n", "a\r\nb\r\n\r\n"),
            ("  a\n \r\n  b", " a\n\r\n b"),
            ("  a\n\u{a0}b\n", "  a\n\u{a0}b\n"),
            ("\n    x\n    y\n      \n    z\n    ", "\nx\ny\n\nz\n"),
        ] {
            assert_eq!(expected, dedent(input), "{input:?}");
        }
    }
}
