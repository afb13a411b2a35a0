#!/usr/bin/env python3
"""Renders the fixtures' conversations with Jinja2, as transformers does, and writes what it yields.

Usage: export_template_fixtures.py TEMPLATES_FOLDER [GGUF ...]

Needs jinja2 (and gguf, for GGUF files). Renders with each *.jinja of the folder, with the templates inside the GGUF
files, and with our own in tests/fixtures/templates/own. Writes tests/fixtures/templates/goldens.json, which holds
renderings, and of the templates only names and digests.
"""

import datetime
import hashlib
import json
import pathlib
import sys

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "templates"
DATE = datetime.datetime(2026, 3, 9)
VARIANTS = [
    {"add_generation_prompt": True},
    {"add_generation_prompt": False},
    {"add_generation_prompt": True, "enable_thinking": False},
    {"add_generation_prompt": True, "enable_thinking": True, "reasoning_effort": "high"},
]


class Refusal(jinja2.TemplateError):
    """What a template raises."""


class Generation(Extension):
    """The tag that marks the assistant's text for training: a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


def environment():
    def refuse(message):
        raise Refusal(message)

    def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = refuse
    made.globals["strftime_now"] = DATE.strftime
    return made


def dictionary(message):
    """A message as longwick hands it over: past reasoning under both of the names that templates use."""
    out = dict(message)
    if "reasoning_content" in out and not (out["content"] and out.get("tool_calls")):
        out["thinking"] = out["reasoning_content"]
    return out


def templates(folder, gguf_files):
    for path in sorted(folder.glob("*.jinja")):
        yield path.name, path.read_text(encoding="utf-8")
    for path in sorted((FIXTURES / "own").glob("*.jinja")):
        yield f"own/{path.name}", path.read_text(encoding="utf-8")
    for path in gguf_files:
        import gguf

        reader = gguf.GGUFReader(path)
        yield f"gguf:{path.name}", reader.fields["tokenizer.chat_template"].contents()


def main():
    folder, *gguf_files = map(pathlib.Path, sys.argv[1:])
    conversations = json.loads((FIXTURES / "conversations.json").read_text(encoding="utf-8"))
    goldens = []
    seen = set()
    for name, source in templates(folder, gguf_files):
        if source in seen:
            continue
        seen.add(source)
        template = environment().from_string(source)
        cases = []
        for title, messages in conversations.items():
            for variant in VARIANTS:
                case = {"conversation": title, "options": variant}
                try:
                    case["text"] = template.render(
                        messages=[dictionary(message) for message in messages],
                        tools=None,
                        documents=None,
                        bos_token="<bos>",
                        eos_token="<eos>",
                        **variant,
                    )
                except Refusal as error:
                    case["refusal"] = str(error)
                except (jinja2.TemplateError, TypeError) as error:
                    case["failure"] = type(error).__name__
                # A variant that changes nothing needs no case of its own.
                told = {key: case[key] for key in case if key != "options"}
                if variant is VARIANTS[0] or told != {key: cases[-1][key] for key in cases[-1] if key != "options"}:
                    cases.append(case)
        goldens.append({"template": name, "sha256": hashlib.sha256(source.encode()).hexdigest(), "cases": cases})
    text = json.dumps({"date": DATE.strftime("%Y-%m-%d"), "goldens": goldens}, ensure_ascii=True, indent=1)
    (FIXTURES / "goldens.json").write_text(text + "\n", encoding="utf-8")
    print(f"{len(goldens)} templates, {sum(len(golden['cases']) for golden in goldens)} cases, {len(text)} bytes")


if __name__ == "__main__":
    main()
