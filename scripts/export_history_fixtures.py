#!/usr/bin/env python3
"""Writes the Parquet fixtures of tests/fixtures/histories, and the same tables as JSONL.

The rows follow conpact 0.1.0's `haystacks` and `Instance` schemas; their texts are our own.
`message_tokens` counts words, since the fixtures test reading and no tokenizer.

    python3 -m venv venv && venv/bin/pip install pyarrow
    venv/bin/python scripts/export_history_fixtures.py
"""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "histories"

MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
HAYSTACK = pa.schema([
    ("haystack_id", pa.string()),
    ("source", pa.string()),
    ("system_prompt", pa.string()),
    ("messages", pa.list_(MESSAGE)),
    ("message_tokens", pa.list_(pa.int64())),
    ("token_length", pa.int64()),
    ("source_conversation_count", pa.int64()),
])
TEXTS = ["id", "source", "haystack_id", "position", "sc_type", "sc_text", "sc_rendered",
         "system_prompt", "developer_prompt", "probe", "correct_answer", "incorrect_answer",
         "compliant_letter", "probe_prompt", "post_sc_probe_prompt", "meta"]
NUMBERS = ["target_length", "token_length", "repeat", "sc_id", "swap_seed"]
FLAGS = ["strict", "direct"]

CONVERSATIONS = [
    [
        ("user", "Which of the tide tables covers the north harbour?"),
        ("assistant", "[tool call] search {\"query\": \"north harbour tides\"}"),
        ("assistant", "[tool result]\nTable 7: north harbour, heights in metres."),
        ("assistant", "Table 7 does, with heights in metres."),
        ("user", ""),
    ],
    [
        ("system", "You plan walks."),
        ("user", "Caf\u00e9s on the ridge path? \U0001f97e"),
        ("assistant", "Two: one at the mast, one at the well."),
    ],
]


def flat(conversation):
    return [{"role": role, "content": content} for role, content in conversation]


def haystack(index, conversation):
    tokens = [len(content.split()) for _, content in conversation]
    return {
        "haystack_id": f"fixture-{index:03}",
        "source": "fixture",
        "system_prompt": "You are a helpful assistant.",
        "messages": flat(conversation),
        "message_tokens": tokens,
        "token_length": sum(tokens),
        "source_conversation_count": 1,
    }


def instance(index, conversation):
    row = {name: f"{name} of instance {index}" for name in TEXTS}
    row |= {name: index + 10 for name in NUMBERS} | {name: index == 0 for name in FLAGS}
    row["id"] = f"fixture-{index:03}-sc01"
    row["haystack_id"] = f"fixture-{index:03}"
    row["sc_message_indices"] = [0]
    constraint = {"role": "user", "content": "From now on, give heights in feet."}
    row["messages"] = [constraint, *flat(conversation)]
    row["messages_without_sc"] = flat(conversation)
    return row


def instance_schema():
    fields = [(name, pa.string()) for name in TEXTS]
    fields += [(name, pa.int64()) for name in NUMBERS]
    fields += [(name, pa.bool_()) for name in FLAGS]
    fields += [("sc_message_indices", pa.list_(pa.int64()))]
    fields += [("messages", pa.list_(MESSAGE)), ("messages_without_sc", pa.list_(MESSAGE))]
    return pa.schema(fields)


def write(name, rows, schema, **options):
    with open(FOLDER / f"{name}.jsonl", "w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, FOLDER / f"{name}.parquet", **options)


def main():
    haystacks = [haystack(i, c) for i, c in enumerate(CONVERSATIONS)]
    instances = [instance(i, c) for i, c in enumerate(CONVERSATIONS)]
    write("haystacks", haystacks, HAYSTACK, compression="snappy")
    write("instances", instances, instance_schema(), compression="zstd")
    # The layout other writers use: plain pages of version 2, no dictionary, one row a group.
    table = pa.Table.from_pylist(haystacks, schema=HAYSTACK)
    pq.write_table(
        table,
        FOLDER / "haystacks-v2.parquet",
        compression="none",
        use_dictionary=False,
        data_page_version="2.0",
        row_group_size=1,
        write_statistics=False,
    )


if __name__ == "__main__":
    main()
