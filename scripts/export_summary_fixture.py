#!/usr/bin/env python3
"""Writes tests/fixtures/summary: made-up result rows, and the tables conpact 0.1.0 makes of them.

    export_summary_fixture.py DIR_OF_UNPACKED_WHEEL [OUT]

conpact imports an API client and a progress bar that summarising does not use; they are replaced by empty modules.
"""

import csv
import json
import random
import sys
import types
from pathlib import Path

TYPES = ["Action", "Information", "Output", "Preference", "Process"]
CONDITIONS = ["full_with_sc", "full_without_sc", "compaction", "upper_bound"]


def conpact_summarize(package):
    for name, attribute in (("openai", "OpenAI"), ("tqdm", "tqdm"), ("tqdm.auto", "tqdm")):
        module = types.ModuleType(name)
        setattr(module, attribute, None)
        sys.modules[name] = module
    parent = types.ModuleType("conpact")
    parent.__path__ = [str(Path(package) / "conpact")]
    sys.modules["conpact"] = parent
    from conpact.evaluate import summarize
    return summarize


def row(generator, index, source, answers, probes=True):
    made = {
        "id": f"{source}-{index // 15:03d}:sc{index % 15 + 1:02d}", "source": source,
        "haystack_id": f"{source}-{index // 15:03d}", "target_length": 3000, "token_length": 2900 + index % 90,
        "position": generator.choice(["top", "middle", "bottom", "multi"]), "repeat": 1, "strict": index % 2 == 0,
        "direct": index % 3 != 0, "sc_id": index % 15 + 1, "sc_type": TYPES[index % 15 // 3],
        "compliant_letter": generator.choice("AB"),
        "compacted": [{"role": "assistant", "content": f"caf\u00e9 {index} \U0001f642\n\"x\"\t\u007f"}],
        "retention": generator.choice([True, False, False]),
    }
    if probes:
        for condition in CONDITIONS:
            compliant = generator.choice(answers)
            made[f"{condition}_output"] = {True: "A", False: "B", None: "I cannot say."}[compliant]
            made[f"{condition}_compliant"] = compliant
    return made


def main():
    summarize = conpact_summarize(sys.argv[1])
    out = Path(sys.argv[2] if len(sys.argv) > 2 else Path(__file__).parent.parent / "tests/fixtures/summary")
    out.mkdir(parents=True, exist_ok=True)
    generator = random.Random(11)
    plain, unscored = [True, False], [True, False, None]
    cases = {
        "full": [row(generator, i, s, plain) for s in ("wild", "Hermes", "\u00e9tude") for i in range(30)],
        "retention-only": [row(generator, i, "wild", plain, probes=False) for i in range(23)],
        "unscored": [row(generator, i, "wild", unscored) for i in range(90)],
        "quoted": [row(generator, i, s, plain) for s in ("a,b", 'say "x"', "two\nlines", " space ") for i in range(15)],
    }
    # Equal rates leave no room above the baseline: an empty cell.
    for made in cases["full"]:
        if made["sc_type"] == "Output":
            made["upper_bound_compliant"] = made["full_without_sc_compliant"]
    for name, rows in cases.items():
        generator.shuffle(rows)
        (out / f"{name}.jsonl").write_text("".join(json.dumps(made) + "\n" for made in rows), encoding="utf-8")
        summary = summarize(rows)
        with open(out / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(summary[0]))
            writer.writeheader()
            writer.writerows(summary)


main()
