#!/usr/bin/env python3
"""Exports a published protocol as one JSON file that longwick reads (see src/compint/protocol/mod.rs).

    export_protocol.py --package DIR --sha256 HEX --out FILE [--repo DIR]

DIR holds the unpacked conpact wheel. Its prompt functions are called with marker values, and their texts are cut at the
markers; texts that the package dedents after filling are taken before the dedenting, because the values take part in
it. Each exported template is then filled by a renderer written here and compared with the package's own output on odd
inputs. Standard library only.
"""

import argparse
import ast
import importlib.util
import json
import os
import random
import re
import sys
import tempfile
import textwrap
from pathlib import Path

FORMAT = 1
CONSTRAINTS = "conpact/constraints.py"
PROMPTS = "conpact/prompts.py"
# Private-use characters cannot stand in a prompt by accident.
MARKERS = {name: chr(0xE000 + index) + name + chr(0xE000 + index) for index, name in enumerate(
    ["probe", "option_a", "option_b", "constraint", "role", "content", "context", "user_message", "entries", "text",
     "registry", "assistant_message"])}

ODD_TEXTS = [
    "plain", "", "two\nlines", "  indented\n    more", "\n\nblank before\n \t \nblank within\n\n", "tab\tand\r\nCRLF\r",
    "{probe} {content} {user_message} {x} {{}}", "quote \" and ' and \\ and \u00e9\u2028\u0000\x1c \U0001f600",
    "        eight\n        eight", "\ttabbed\n\ttabbed", " \n ", "\x1f edge \x85",
]


class ExportError(Exception):
    pass


def load_module(path, name):
    """Runs one file as a module, without the package around it and its dependencies."""
    if not path.is_file():
        raise ExportError(f"{path} is not there")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def template(text, dedent=False, strip=False):
    """A template as the file has it: the markers become places."""
    for name, marker in MARKERS.items():
        if "{" + name + "}" in text:
            raise ExportError(f"the text already contains {{{name}}}, which would read as a place: {text[:80]!r}")
        text = text.replace(marker, "{" + name + "}")
    if not dedent and not strip:
        return text
    return {"text": text, "dedent": dedent, "strip": strip}


def render(written, values):
    """What longwick does with a template."""
    if isinstance(written, str):
        written = {"text": written, "dedent": False, "strip": False}
    places = "|".join(re.escape(name) for name in values)
    text = written["text"]
    if values:
        text = re.sub(r"\{(" + places + r")\}", lambda match: values[match.group(1)], text)
    if written["dedent"]:
        text = textwrap.dedent(text)
    return text.strip() if written["strip"] else text


def render_list(written, messages):
    lines = [render(written["message"], m) for m in messages]
    if "open" in written:
        lines.insert(0, written["open"])
    if "close" in written:
        lines.append(written["close"])
    return written["separator"].join(lines)


def before_dedent(module, call):
    """Calls `call` and returns (its result, the texts it handed to dedent, in order)."""
    texts, real = [], module.dedent

    def recording(text):
        texts.append(text)
        return real(text)

    module.dedent = recording
    try:
        return call(), texts
    finally:
        module.dedent = real


def message_list(rendered_none, rendered_two, separator):
    """The form of a rendered list, from its texts for no message and for two marker messages."""
    head, first, second = rendered_two.split(MARKERS["role"])
    middle, between = first.split(MARKERS["content"])
    middle_again, tail = second.split(MARKERS["content"])
    suffix, found, prefix = between.rpartition(separator)
    # What stands around one message, as the brackets of "[role]", also stands at the list's ends.
    if not found or middle != middle_again or not head.endswith(prefix) or not tail.startswith(suffix):
        raise ExportError(f"the messages of a list are not written alike: {rendered_two!r}")
    head, tail = head[:len(head) - len(prefix)], tail[len(suffix):]
    written = {"message": template(prefix + MARKERS["role"] + middle + MARKERS["content"] + suffix),
               "separator": separator}
    if head:
        written["open"] = head.removesuffix(separator)
    if tail:
        written["close"] = tail.removeprefix(separator)
    if render_list(written, []) != rendered_none:
        raise ExportError(f"an empty list is {rendered_none!r}, not {render_list(written, [])!r}")
    return written


def export_constraints(module):
    exported = []
    for sc in module.SCS:
        exported.append({"id": sc["id"], "type": sc["type"], "text": sc["sc"], "probe": sc["probe"],
                         "compliant": sc["correct_answer"], "noncompliant": sc["incorrect_answer"]})
    if len(exported) != 15:
        raise ExportError(f"{len(exported)} constraints, not 15")
    for strict in (False, True):
        for direct in (False, True):
            for constraint in exported:
                text = constraint["text"]
                prefix = {(False, False): "", (True, True): "This is an important constraint: for the rest of this "
                          "session. ", (False, True): "For the rest of this session. ",
                          (True, False): "This is an important constraint: "}[strict, direct]
                framed = prefix + text[0].lower() + text[1:] if prefix else text
                if module.render_sc(text, strict, direct) != framed:
                    raise ExportError(f"constraint {constraint['id']} is framed otherwise than longwick frames it")
    return exported


def export_probe(module):
    texts = {}
    for seed in range(64):
        text, letter = module.probe_prompt(MARKERS["probe"], MARKERS["option_a"], MARKERS["option_b"], seed)
        swapped = random.Random(seed).random() < 0.5
        if letter != ("B" if swapped else "A"):
            raise ExportError(f"seed {seed} gives the letter {letter}")
        texts[swapped] = text
    exported = template(texts[False])
    if len(texts) != 2 or template(texts[True]) != exported.replace("{option_a}", "\0").replace(
            "{option_b}", "{option_a}").replace("\0", "{option_b}"):
        raise ExportError("a swap changes more of the probe than the order of its options")
    for index, odd in enumerate(ODD_TEXTS):
        a, b = ODD_TEXTS[index - 1], ODD_TEXTS[index - 2]
        text, letter = module.probe_prompt(odd, a, b, index)
        first, second = (b, a) if letter == "B" else (a, b)
        check("probe", render(exported, {"probe": odd, "option_a": first, "option_b": second}), text)
    return exported


def check(what, ours, theirs):
    if ours != theirs:
        raise ExportError(f"{what}: rendering the export gives {ours!r}, the package {theirs!r}")


def marker_messages(count):
    return [{"role": MARKERS["role"], "content": MARKERS["content"]} for _ in range(count)]


def odd_histories():
    generator = random.Random(2)
    yield []
    for count in (1, 2, 3, 5, 8):
        yield [{"role": generator.choice(["user", "assistant", "tool", "odd role"]),
                "content": generator.choice(ODD_TEXTS)} for _ in range(count)]
    for odd in ODD_TEXTS:
        yield [{"role": "user", "content": odd}]


def export_judge(module):
    (system, _), raws = before_dedent(
        module, lambda: module.judge_prompts(MARKERS["constraint"], [{"role": "", "content": MARKERS["context"]}]))
    if len(raws) != 2:
        raise ExportError(f"judge_prompts dedents {len(raws)} texts, not 2")
    # One message without a role is written ":" and its content on the next line.
    whole = ":\n" + MARKERS["context"]
    if raws[1].count(whole) != 1:
        raise ExportError(f"the judge's context is not found in {raws[1]!r}")

    def context(messages):
        _, texts = before_dedent(module, lambda: module.judge_prompts(MARKERS["constraint"], messages))
        head, tail = raws[1].split(whole)
        text = texts[1]
        if not text.startswith(head) or not text.endswith(tail):
            raise ExportError("the judge's context does not stand where it was found")
        return text[len(head):len(text) - len(tail)]

    exported = {
        "system": template(system),
        "user": template(raws[1].replace(whole, MARKERS["context"]), dedent=True, strip=True),
        "context": message_list(context([]), context(marker_messages(2)), "\n\n"),
    }
    for messages in odd_histories():
        for odd in ODD_TEXTS:
            theirs = module.judge_prompts(odd, messages)
            values = {"constraint": odd, "context": render_list(exported["context"], messages)}
            check("judge", (render(exported["system"], {}), render(exported["user"], values)), theirs)
    return exported


def export_compaction(names, function, transcript_of):
    """`function(name, messages)` gives a prompt's messages; a transcript in them becomes a place."""
    transcript = message_list(transcript_of([]), transcript_of(marker_messages(2)), "\n")
    history = marker_messages(2)
    written = transcript_of(history)
    exported = {}
    for name in names:
        parts, messages = [], list(function(name, history))
        while messages:
            if messages[:len(history)] == history:
                parts.append({"history": "messages"})
                del messages[:len(history)]
                continue
            message = messages.pop(0)
            if "{transcript}" in message["content"]:
                raise ExportError(f"{name} already contains {{transcript}}, which would read as a place")
            content = message["content"].replace(written, "{transcript}")
            parts.append({"role": message["role"], "content": template(content)})
        exported[name] = parts
        for odd in odd_histories():
            check(name, render_parts(parts, transcript, odd), list(function(name, odd)))
    return exported, transcript


def render_parts(parts, transcript, history):
    messages = []
    for part in parts:
        if "history" in part:
            messages.extend({"role": m["role"], "content": m["content"]} for m in history)
        else:
            values = {"transcript": render_list(transcript, history)}
            messages.append({"role": part["role"], "content": render(part["content"], values)})
    return messages


def export_package(package):
    constraints = load_module(package / CONSTRAINTS, "conpact_constraints")
    prompts = load_module(package / PROMPTS, "conpact_prompts")
    compaction, transcript = export_compaction(
        option_names(package / PROMPTS, "summarization_prompt", ["anthropic", "pi_mono"]),
        prompts.summarization_prompt, prompts._render_transcript)
    return {
        "developer_prompt": prompts.DEVELOPER_PROMPT,
        "probe": export_probe(prompts),
        "judge": export_judge(prompts),
        "transcript": transcript,
        "constraints": export_constraints(constraints),
        "compaction": compaction,
        "extraction": {},
    }


def function_of(path, name):
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    return None


def option_names(path, function_name, required):
    """The strings that the function's `option` argument is compared with."""
    function = function_of(path, function_name)
    if function is None:
        raise ExportError(f"{path} has no function {function_name}")
    names = []
    for node in ast.walk(function):
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "option":
            for constant in ast.walk(node):
                if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                    names.append(constant.value)
    missing = [name for name in required if name not in names]
    if missing:
        raise ExportError(f"{path}: {function_name} has no prompt {missing}; it has {sorted(set(names))}")
    return sorted(set(names))


REPO_PROMPTS = "compaction_integrity/prompts.py"
REPO_EXTRACTOR = "compaction_integrity/sc_extractor.py"
TARGETED = "anthropic-sc-targeted"
EXTRACTIONS = {"extractor": "build_sc_extraction_prompts",
               "swe_natural_extractor": "build_swe_natural_sc_extraction_prompts"}


def repo_file(repo, name, required=True):
    for folder in ("src", "."):
        if (repo / folder / name).is_file():
            return repo / folder / name
    found = sorted(repo.rglob(name))
    if found:
        return found[0]
    if required:
        raise ExportError(f"{repo} is not a compaction-integrity checkout: looked for src/{name}, {name} and **/{name}")
    return None


def split_around(text, part, what):
    if text.count(part) != 1:
        raise ExportError(f"{what} stands {text.count(part)} times, not once, in {text!r}")
    return text.split(part)


def export_extraction(module, function, header):
    """An extraction prompt, from its texts with and without a registry and a previous assistant message."""
    user_message, entry, previous = MARKERS["user_message"], "1. " + MARKERS["entries"], MARKERS["text"]
    (system, user), raws = before_dedent(module, lambda: function(user_message, [MARKERS["entries"]], previous))
    if len(raws) == 4:
        registry, block, raw = raws[1], raws[2], raws[3]
        (_, _), bare = before_dedent(module, lambda: function(user_message, None, previous))
        head, tail = split_around(registry, entry, "the registry")
        empty = bare[1][len(head):len(bare[1]) - len(tail)]
        raw = raw.replace(textwrap.dedent(registry), MARKERS["registry"], 1)
        raw = raw.replace(textwrap.dedent(block), MARKERS["assistant_message"], 1)
        exported = {"user": template(raw, dedent=True, strip=True),
                    "registry": template(registry.replace(entry, MARKERS["entries"]), dedent=True),
                    "assistant_message": template(block, dedent=True)}
    elif len(raws) == 1:
        head, tail = split_around(user, entry, "the registry")
        bare = function(user_message, None, previous)[1]
        tail_at = bare.index(user_message) - (user.index(user_message) - len(head + entry))
        empty = bare[len(head):tail_at]
        without = function(user_message, [MARKERS["entries"]], None)[1]
        start = len(os.path.commonprefix([user, without]))
        block = user[start:start + len(user) - len(without)]
        raw = user[:start] + MARKERS["assistant_message"] + user[start + len(block):]
        exported = {"user": template(raw.replace(entry, MARKERS["registry"])), "registry": "{entries}",
                    "assistant_message": template(block)}
    else:
        raise ExportError(f"an extraction prompt dedents {len(raws)} texts, not 1 or 4")
    exported = {"system": template(system), **exported, "registry_empty": empty}
    if header is not None:
        exported["registry_header"] = header
    for index, odd in enumerate(ODD_TEXTS):
        for listed in ([], [ODD_TEXTS[index - 1]], ODD_TEXTS[index - 3:index]):
            for before in (None, ODD_TEXTS[index - 2]):
                check("extraction", render_extraction(exported, odd, listed, before), function(odd, listed, before))
    return exported


def render_extraction(written, user_message, registry, previous):
    entries = "\n".join(f"{i}. {text}" for i, text in enumerate(registry, start=1)) or written["registry_empty"]
    block = "" if previous is None else render(written["assistant_message"], {"text": previous})
    values = {"user_message": user_message, "assistant_message": block,
              "registry": render(written["registry"], {"entries": entries})}
    return render(written["system"], {}), render(written["user"], values)


def registry_header(repo):
    path = repo_file(repo, REPO_EXTRACTOR, required=False)
    if path is None:
        return None
    for node in ast.parse(path.read_text(encoding="utf-8"), filename=str(path)).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "REGISTRY_HEADER"
                                                for t in node.targets):
            return ast.literal_eval(node.value)
    return None


def add_repo(protocol, repo):
    path = repo_file(repo, REPO_PROMPTS)
    names = option_names(path, "get_summarization_prompt", ["anthropic", TARGETED])
    if function_of(path, EXTRACTIONS["extractor"]) is None:
        raise ExportError(f"{path} has no function {EXTRACTIONS['extractor']}")
    module = load_module(path, "compaction_integrity_prompts")
    compaction, transcript = export_compaction(
        names, module.get_summarization_prompt, lambda m: module.get_summarization_prompt("anthropic", m)[0]["content"])
    if transcript != protocol["transcript"]:
        raise ExportError(f"{path} writes transcripts otherwise than the package")
    for name, parts in compaction.items():
        kept = protocol["compaction"].setdefault(name, parts)
        same = "added" if kept is parts else "the same as the package's" if kept == parts else "DIFFERS, package's kept"
        print(f"  compaction prompt {name!r}: {same}", file=sys.stderr)
    header = registry_header(repo)
    print(f"  registry header: {'none found' if header is None else repr(header)}", file=sys.stderr)
    for name, function in EXTRACTIONS.items():
        if function_of(path, function) is None:
            print(f"  extraction prompt {name!r}: {function} not found in {path}", file=sys.stderr)
            continue
        protocol["extraction"][name] = export_extraction(module, getattr(module, function), header)
        print(f"  extraction prompt {name!r}: added", file=sys.stderr)


def write_atomically(path, protocol):
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(protocol, file, ensure_ascii=False, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", type=Path, required=True, help="folder that holds conpact/")
    parser.add_argument("--name", default="conpact-0.1.0", help="the protocol's name")
    parser.add_argument("--sha256", required=True, help="of the wheel, recorded as the origin")
    parser.add_argument("--repo", type=Path, help="a compaction-integrity checkout, for extraction and targeted prompts")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    sys.dont_write_bytecode = True
    try:
        origin = f"PyPI wheel of {arguments.name}, sha256 {arguments.sha256}"
        protocol = {"format": FORMAT, "name": arguments.name, "origin": origin, **export_package(arguments.package)}
        if arguments.repo is not None:
            add_repo(protocol, arguments.repo)
            protocol["origin"] += "; further prompts from a compaction-integrity checkout"
        write_atomically(arguments.out, protocol)
    except (ExportError, OSError, SyntaxError, AttributeError, KeyError, TypeError, ValueError) as error:
        sys.exit(f"export_protocol.py: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
