//! Damaged and hostile templates: a typed error each.
use super::{options, small, text};
use crate::chat::{ChatError, ChatTemplate, RenderOptions, source};

fn render(source: &str) -> Result<String, ChatError> {
    let template = ChatTemplate::from_jinja(source, &small())?;
    Ok(template.render(&small(), &[text("user", "Hi.")], &options())?.text)
}

#[test]
fn syntax_errors_name_the_line() {
    for source in
        ["a\n{% if %}", "a\n{{ b", "\n{% nothing %}", "\n{% for x in y %}", "\n{{ 'a' | ", "\n{% endif %}"]
    {
        let error = render(source).expect_err("refused");
        assert!(matches!(error, ChatError::Syntax { line: 2, .. }), "{source}: {error}");
    }
    assert!(matches!(render("{% include 'other' %}"), Err(ChatError::Failed { .. })));
}

#[test]
fn endless_templates_are_stopped() {
    let loops = "{% for a in range(90000) %}{% for b in range(90000) %}{% for c in range(90000) %}{% endfor %}{% endfor %}\
        {% endfor %}";
    assert!(matches!(render(loops), Err(ChatError::OutOfFuel { messages: 1, .. })));
    let doubling =
        "{% set ns = namespace(x='ab') %}{% for a in range(90000) %}{% set ns.x = ns.x + ns.x %}{% endfor %}";
    assert!(matches!(render(doubling), Err(ChatError::OutOfFuel { .. })));
    let repeats = [
        "{{ 'a' * 100000000000 }}",
        "{{ '%999999999999d' | format(1) }}",
        "{{ [1] | tojson(indent=999999999999) }}",
        "{{ 'a' | indent(999999999999, true) }}",
        "{{ ['a'] * 10000000000 }}",
        "{{ '-'.join(range(99999999999)) }}",
    ];
    for source in repeats {
        let error = render(source).expect_err(source);
        assert!(matches!(error, ChatError::Failed { .. } | ChatError::OutOfFuel { .. }), "{source}: {error}");
    }
    let recursion = "{% macro f(x) %}{{ f(x + 1) }}{% endmacro %}{{ f(0) }}";
    let error = render(recursion).expect_err("stopped");
    assert!(matches!(error, ChatError::Failed { .. } | ChatError::OutOfFuel { .. }), "{error}");
}

#[test]
fn failures_name_the_line() {
    let failures = ["\n{{ missing.field }}", "\n{{ 'a' + 1 }}", "\n{{ x() }}", "\n{{ messages | nothing }}"];
    for source in failures {
        let error = render(source).expect_err("fails");
        assert!(
            matches!(error, ChatError::Failed { line: 2, .. } | ChatError::Syntax { line: 2, .. }),
            "{error}"
        );
    }
    let error = render("{{ strftime_now('%Q') }}").expect_err("fails");
    assert!(error.to_string().contains("%Q"), "{error}");
}

#[test]
fn dates_and_conversations_are_checked() {
    let template = ChatTemplate::from_jinja("{{ messages[0].content }}", &small()).expect("compiles");
    for date in ["2026-02-30", "2026-13-01", "26-01-01", "2026/01/01", "", "2026-1-001", "２０２６-01"] {
        let options = RenderOptions { date: date.to_owned(), ..options() };
        let error = template.render(&small(), &[text("user", "Hi.")], &options).expect_err("no date");
        assert!(matches!(error, ChatError::Date { .. }), "{date}");
    }
    assert!(matches!(template.render(&small(), &[], &options()), Err(ChatError::Empty)));
}

#[test]
fn templates_are_found_in_folders() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    let find = || source::in_folder(folder.path());
    assert_eq!(find().expect("nothing is damaged"), None);
    write("chat_template.json", r#"{"chat_template": "from json"}"#);
    assert_eq!(find().expect("found").as_deref(), Some("from json"));
    write(
        "tokenizer_config.json",
        r#"{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]}"#,
    );
    assert_eq!(find().expect("found").as_deref(), Some("d"));
    for damaged in
        [r#"{"chat_template": [{"name": "tool_use", "template": "t"}]}"#, r#"{"chat_template": 7}"#, "{"]
    {
        write("tokenizer_config.json", damaged);
        let error = find().expect_err("damaged");
        assert!(
            matches!(error, ChatError::Damaged { .. }) && error.to_string().contains("tokenizer_config.json")
        );
    }
    write("chat_template.jinja", "from jinja");
    assert_eq!(find().expect("found").as_deref(), Some("from jinja"));
}
