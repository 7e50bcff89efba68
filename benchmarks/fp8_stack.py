#!/usr/bin/env python3
"""FP8 beside bfloat16 on an NVIDIA GPU: a stack of Llama-style projections and gated MLPs, 8192 tokens.

  python3 benchmarks/fp8_stack.py --build build/cuda-release --out build/fp8_stack

Exports the stack with random weights, optimizes it at balanced (bfloat16) and aggressive (FP8 where the gate allows),
and measures both. Passes are timed and judged on as many tokens as are measured, by one draw: its fp64 run on the host
takes long. Tokens come in as numbers and a mean goes out, so that copies to the GPU cost nothing. Weights are counted as the
artifact has them, and by what is in use on the device when it has run on few tokens.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

WIDTH, INNER, QKV, LAYERS, TOKENS = 4096, 14336, 6144, 2, 8192
FEW_TOKENS = 16  # what a run itself needs is next to nothing then
UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}


def ask(*words):
    """What a command of kpt tells as JSON."""
    return json.loads(subprocess.run([*words, "--json"], check=True, capture_output=True, text=True).stdout)


def optimize_command(kpt, plain, level, device, symbol, artifact):
    return [kpt, "optimize", str(plain), "--level", level, "--device", device, "--size", f"{symbol}={TOKENS}", "--draws",
            "1", "-o", str(artifact)]


def format_row(level, milliseconds, flops, memory, file_bytes):
    """`memory`: as kpt profile tells it."""
    in_use = memory.get("allocated_bytes")
    return (f"| {level} | {milliseconds:.3f} | {flops / milliseconds / 1e9:.0f} | {memory['weights_bytes'] / 1e6:.0f} | "
            f"{'–' if in_use is None else format(in_use / 1e6, '.0f')} | {file_bytes / 1e6:.0f} |")


def export(path):
    import torch

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.RMSNorm(WIDTH), torch.nn.RMSNorm(WIDTH)
            self.qkv, self.out = torch.nn.Linear(WIDTH, QKV, bias=False), torch.nn.Linear(WIDTH, WIDTH, bias=False)
            self.gate, self.up = torch.nn.Linear(WIDTH, INNER, bias=False), torch.nn.Linear(WIDTH, INNER, bias=False)
            self.down = torch.nn.Linear(INNER, WIDTH, bias=False)

        def forward(self, x):
            x = x + self.out(self.qkv(self.first(x))[:, :WIDTH])
            y = self.second(x)
            return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))

    class Stack(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(1024, WIDTH)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))

        def forward(self, ids):
            x = self.embedding(ids)
            for layer in self.layers:
                x = layer(x)
            return x.mean(0)

    torch.manual_seed(1)
    model = Stack().to(torch.bfloat16).eval()
    ids = torch.randint(0, 1024, (64,))
    with torch.no_grad():
        program = torch.export.export(model, (ids,), dynamic_shapes=({0: torch.export.Dim("tokens", min=2, max=16384)},))
    torch.export.save(program, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/cuda-release"), metavar="DIR")
    parser.add_argument("--out", type=Path, default=Path("build/fp8_stack"), metavar="DIR")
    parser.add_argument("--device", default="nvidia:0")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    kpt, plain = str(arguments.build / "bin" / "kpt"), arguments.out / "stack.pt2"
    if not plain.exists():
        export(plain)
    symbol = ask(kpt, "inspect", str(plain))["symbols"][0]["name"]
    flops = 2 * TOKENS * LAYERS * WIDTH * (QKV + WIDTH + 3 * INNER)
    print(f"{TOKENS} tokens, {LAYERS} layers, {flops / 1e12:.2f} TFLOP")
    print("| level | ms | TFLOP/s | weights, MB | in use on the device, MB | file, MB |\n|---|---|---|---|---|---|")
    reports = []
    for level in ("balanced", "aggressive"):
        artifact = arguments.out / f"{level}.kpt"
        done = subprocess.run(optimize_command(kpt, plain, level, arguments.device, symbol, artifact),
                              capture_output=True, text=True)
        reports.append(done.stdout[-1500:] + done.stderr[-500:])
        if done.returncode != 0:
            print(f"| {level} | refused ({done.returncode}) | | | | |")
            continue
        entry = ask(kpt, "bench", str(artifact), "--device", arguments.device, "--sweep", f"{symbol}={TOKENS}",
                    "--duration", "2")["benchmarks"][0]
        memory = ask(kpt, "profile", str(artifact), "--device", arguments.device, "--size", f"{symbol}={FEW_TOKENS}",
                     "--runs", "1")["memory"]
        print(format_row(level, entry["real_time"] * UNITS[entry["time_unit"]], flops, memory,
                         artifact.stat().st_size), flush=True)
    print("\n" + "\n".join(reports))
    return 0


if __name__ == "__main__":
    sys.exit(main())
