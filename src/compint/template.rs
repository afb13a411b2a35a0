//! [`Template`]: a prompt text with named places.

use super::pytext;
use serde::{Deserialize, Serialize};

/// A text with places written `{name}`.
///
/// A place is only what [`Template::render`] is given a value for: any other brace is text, so JSON and code stand in a
/// template as they are. Values are put in once and are not searched for places again.
///
/// # Representation
/// A plain string, or a table `{ text, dedent, strip }`. With `dedent`, Python's `textwrap.dedent` runs over the text
/// **after** the values are in, as the published prompts do it; with `strip`, Python's `str.strip` runs last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Template {
    /// The text with its places.
    pub text: String,
    /// Whether the filled text is dedented.
    pub dedent: bool,
    /// Whether the filled (and dedented) text is stripped.
    pub strip: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Plain(String),
    Table(TemplateTable),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TemplateTable {
    text: String,
    #[serde(default)]
    dedent: bool,
    #[serde(default)]
    strip: bool,
}

impl From<Written> for Template {
    fn from(written: Written) -> Self {
        match written {
            Written::Plain(text) => Self::plain(text),
            Written::Table(TemplateTable { text, dedent, strip }) => Self { text, dedent, strip },
        }
    }
}

impl From<Template> for Written {
    fn from(Template { text, dedent, strip }: Template) -> Self {
        if dedent || strip { Self::Table(TemplateTable { text, dedent, strip }) } else { Self::Plain(text) }
    }
}

impl Template {
    /// A template whose filled text is used as it is.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), dedent: false, strip: false }
    }

    /// Puts each `(name, value)` wherever `{name}` stands, then dedents and strips as the template says.
    pub fn render(&self, values: &[(&str, &str)]) -> String {
        let mut filled = fill(&self.text, values);
        if self.dedent {
            filled = pytext::dedent(&filled);
        }
        if self.strip {
            filled = pytext::strip(&filled).to_owned();
        }
        filled
    }

    /// Whether `{name}` stands in the text.
    pub fn has_place(&self, name: &str) -> bool {
        self.text.contains(&format!("{{{name}}}"))
    }
}

fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled =
        String::with_capacity(text.len() + values.iter().map(|(_, value)| value.len()).sum::<usize>());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, from_brace) = rest.split_at(open);
        filled.push_str(before);
        let place = values.iter().find_map(|(name, value)| {
            let after = from_brace[1..].strip_prefix(name)?.strip_prefix('}')?;
            Some((*value, after))
        });
        match place {
            Some((value, after)) => {
                filled.push_str(value);
                rest = after;
            }
            None => {
                filled.push('{');
                rest = &from_brace[1..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_given_names_are_places_and_values_are_not_searched() {
        let template = Template::plain(r#"{"scs": []} {a}{b} {{a}} {c} {a"#);
        assert_eq!(r#"{"scs": []} {b}y {{b}} {c} {a"#, template.render(&[("a", "{b}"), ("b", "y")]));
    }

    #[test]
    fn dedent_sees_the_values() {
        let template = Template { text: "\n    [x]\n    {v}\n".into(), dedent: true, strip: true };
        assert_eq!("[x]\none", template.render(&[("v", "one")]));
        assert_eq!("[x]\n    one\ntwo", template.render(&[("v", "one\ntwo")]));
        assert_eq!("[x]\none\n  two", template.render(&[("v", "one\n      two")]));
    }

    #[test]
    fn both_spellings_read_and_unknown_keys_are_refused() {
        let plain: Template = serde_json::from_str(r#""{v}""#).unwrap();
        assert_eq!(Template::plain("{v}"), plain);
        let table: Template = serde_json::from_str(r#"{"text": "{v}", "strip": true}"#).unwrap();
        assert_eq!(Template { text: "{v}".into(), dedent: false, strip: true }, table);
        assert!(serde_json::from_str::<Template>(r#"{"text": "", "trim": true}"#).is_err());
        assert_eq!(table, serde_json::from_str(&serde_json::to_string(&table).unwrap()).unwrap());
    }
}
