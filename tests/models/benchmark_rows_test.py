#!/usr/bin/env python3
"""Rows of the benchmarks in small: `kpt run`, and PyTorch with buffers kept from run to run, give what fp64 says.

  benchmark_rows_test.py KPT_PROGRAM
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "tools"))
import blas_setting  # noqa: E402, F401  before torch

import torch  # noqa: E402
import transformers.modeling_outputs  # noqa: E402, F401  programs return its classes
from safetensors.torch import load_file, save_file  # noqa: E402

import case_files  # noqa: E402
from model_list import STATE  # noqa: E402

ROWS = {"gpt2_bf16_static:3x8": [3, 8], "llama_decode_bf16_static:1x16": [1, 1], "vit_bf16_static:3": [3, 3, 32, 32]}
MOST_ERROR = 0.05


def call(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def check_outputs(entry, given, fp64, words):
    if list(given) != entry["outputs"] or not fp64:
        sys.exit(f"{entry['name']}: {words} gives {list(given)}, the entry says {entry['outputs']}")
    for name, expected in fp64.items():
        error = ((given[name].double() - expected).square().mean() / expected.square().mean()).sqrt().item()
        if not error < MOST_ERROR:
            sys.exit(f"{entry['name']}: {name} of {words} is {error} from fp64")


def check_cache(entry, module):
    """The cache of a decoding step is filled: with zeros, attention would agree whatever it reads."""
    cache = {name: buffer for name, buffer in module.named_buffers()
             if name.rsplit(".", 1)[-1].rsplit("_", 1)[0] in STATE and buffer.is_floating_point()}
    if bool(cache) != ("decode" in entry["name"]):
        sys.exit(f"{entry['name']}: its cache holds {sorted(cache)}")
    empty = [name for name, buffer in cache.items() if not buffer.any()]
    if empty:
        sys.exit(f"{entry['name']}: {', '.join(empty)} of its cache are zeros")


def check(kpt, folder, entry):
    cases = load_file(folder / entry["cases_file"])
    def group(name):
        prefix = f"case0/{name}/"
        return {key[len(prefix):]: value for key, value in cases.items() if key.startswith(prefix)}
    if entry["inputs"][0]["dims"] != ROWS[":".join(entry["name"].rsplit("_", 1))]:
        sys.exit(f"{entry['name']} takes {entry['inputs'][0]}")
    save_file(group("input"), folder / "inputs.safetensors")
    call(kpt, "run", folder / entry["file"], "--inputs", folder / "inputs.safetensors", "--outputs",
         folder / "outputs.safetensors")
    check_outputs(entry, load_file(folder / "outputs.safetensors"), group("fp64"), "kpt run")
    module = torch.export.load(folder / entry["file"]).module()
    check_cache(entry, module)
    for number in range(1, 4):  # a decoding step stays where its input says, however often it runs
        with torch.no_grad():
            given = case_files.flatten_outputs(module(**group("input")))
        check_outputs(entry, given, group("fp64"), f"run {number} of PyTorch")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        call(sys.executable, HERE / "export_models.py", "--out", folder, "--jobs", 1, "--only", *ROWS)
        entries = json.loads((folder / "index.json").read_text())["models"]
        if len(entries) != len(ROWS):
            sys.exit(f"{len(entries)} of {len(ROWS)} rows were exported")
        for entry in entries:
            check(sys.argv[1], folder, entry)
    print(f"{len(ROWS)} rows agree with fp64")


if __name__ == "__main__":
    main()
