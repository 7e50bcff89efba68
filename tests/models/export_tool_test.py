#!/usr/bin/env python3
"""tools/export_model.py as a user calls it, and `kpt run` on what it wrote, held against PyTorch on the same file.

  export_tool_test.py KPT_PROGRAM
"""

import json
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
import blas_setting  # noqa: E402, F401  before torch

import torch  # noqa: E402
import transformers.modeling_outputs  # noqa: E402, F401  programs return its classes
from safetensors.torch import load_file, save_file  # noqa: E402

import case_files  # noqa: E402
import references  # noqa: E402

WIDTH = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 101,
         "max_position_embeddings": 64}
BERT = {"model_type": "bert", "architectures": ["BertModel"], **WIDTH}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_key_value_heads": 2, "pad_token_id": 0,
         "bos_token_id": 1, "eos_token_id": 2, **WIDTH}


def call(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def export(folder, config, *flags):
    """The file that the tool writes for a configuration with random weights."""
    source, path = folder / "config.json", folder / f"{config['model_type']}.pt2"
    source.write_text(json.dumps(config))
    text = call(sys.executable, ROOT / "tools/export_model.py", source, "-o", path, "--config-only", *flags)
    for word in (config["architectures"][0], "agrees with the model"):
        if word not in text:
            sys.exit(f"the tool did not say '{word}':\n{text}")
    return path


def check_run(kpt, folder, path, inputs):
    """`kpt run` must give what PyTorch gives for the same file and inputs."""
    save_file(inputs, folder / "inputs.safetensors")
    call(kpt, "run", path, "--inputs", folder / "inputs.safetensors", "--outputs", folder / "outputs.safetensors")
    given = load_file(folder / "outputs.safetensors")
    with torch.no_grad():
        expected = case_files.flatten_outputs(torch.export.load(path).module()(**inputs))
    difference = references.find_disagreement(given, expected, {})
    if difference or not expected or not all(value.isfinite().all() for value in expected.values()):
        sys.exit(f"kpt run on {path.name}: {difference or 'nothing to compare'}")
    print(f"{path.name}: {', '.join(f'{name} {list(value.shape)}' for name, value in given.items())} as PyTorch gives them")


def main():
    kpt, seed = sys.argv[1], secrets.randbelow(1 << 31)
    print(f"seed {seed}")
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mask = (torch.arange(11) < torch.tensor([[11], [4], [7]])).long()
        bert = {"input_ids": torch.randint(0, 101, (3, 11)), "attention_mask": mask,
                "token_type_ids": torch.randint(0, 2, (3, 11))}
        check_run(kpt, folder, export(folder, BERT), bert)
        step = {"input_ids": torch.randint(3, 101, (1, 1)), "cache_position": torch.tensor([0])}
        check_run(kpt, folder, export(folder, LLAMA, "--static-cache", "16", "--batch", "1"), step)


if __name__ == "__main__":
    main()
