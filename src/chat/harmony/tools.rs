//! [`ToolNamespace`]: tools as the model reads them, declared in TypeScript.
use serde_json::Value;

use super::typescript;

/// Tools under a common name.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolNamespace {
    /// The name (`functions` for those of the developer).
    pub name: String,
    /// What they are for.
    pub description: Option<String>,
    /// The tools; none where the description alone says how to use them.
    pub tools: Vec<Tool>,
}

/// One tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name in the namespace.
    pub name: String,
    /// What it does.
    pub description: String,
    /// A JSON schema of its one argument, an object; `None` where it takes none.
    pub parameters: Option<Value>,
}

/// The section of a message that declares these namespaces; nothing where there are none.
pub(super) fn section(namespaces: &[ToolNamespace]) -> Option<String> {
    let declared = namespaces.iter().map(ToolNamespace::declaration);
    let sections: Vec<String> = std::iter::once("# Tools".to_owned()).chain(declared).collect();
    (sections.len() > 1).then(|| sections.join("\n\n"))
}

impl ToolNamespace {
    fn declaration(&self) -> String {
        let mut lines = vec![format!("## {}\n", self.name)];
        let description = self.description.as_deref().unwrap_or_default();
        if self.tools.is_empty() {
            lines.extend(description.lines().map(str::to_owned));
            return lines.join("\n");
        }
        lines.extend(comments(description));
        lines.push(format!("namespace {} {{\n", self.name));
        for Tool { name, description, parameters } in &self.tools {
            lines.extend(comments(description));
            lines.push(match parameters {
                Some(schema) => {
                    format!("type {name} = (_: {}) => any;\n", typescript::type_of(schema, ""))
                }
                None => format!("type {name} = () => any;\n"),
            });
        }
        lines.push(format!("}} // namespace {}", self.name));
        lines.join("\n")
    }
}

fn comments(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().map(|line| format!("// {line}"))
}
