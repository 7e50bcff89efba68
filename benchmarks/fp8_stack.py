#!/usr/bin/env python3
"""FP8 beside bfloat16 on an NVIDIA GPU: a stack of Llama-style projections and gated MLPs, 8192 tokens.

  python3 benchmarks/fp8_stack.py --build build/cuda-release --out build/fp8_stack

Exports the stack with random weights, optimizes it at balanced (bfloat16) and aggressive (FP8 where the gate allows),
and measures both. Tokens come in as numbers and a mean goes out, so that copies to the GPU cost nothing.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

WIDTH, INNER, QKV, LAYERS, TOKENS = 4096, 14336, 6144, 2, 8192


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
    symbol = json.loads(subprocess.run([kpt, "inspect", str(plain), "--json"], check=True, capture_output=True,
                                       text=True).stdout)["symbols"][0]["name"]
    flops = 2 * TOKENS * LAYERS * WIDTH * (QKV + WIDTH + 3 * INNER)
    print(f"{TOKENS} tokens, {LAYERS} layers, {flops / 1e12:.2f} TFLOP")
    print("| level | ms | TFLOP/s | file, MB |\n|---|---|---|---|")
    reports = []
    for level in ("balanced", "aggressive"):
        artifact = arguments.out / f"{level}.kpt"
        done = subprocess.run([kpt, "optimize", str(plain), "--level", level, "--device", arguments.device, "-o",
                               str(artifact)], capture_output=True, text=True)
        reports.append(done.stdout[-1500:] + done.stderr[-500:])
        if done.returncode != 0:
            print(f"| {level} | refused ({done.returncode}) | | |")
            continue
        answer = json.loads(subprocess.run(
            [kpt, "bench", str(artifact), "--device", arguments.device, "--sweep", f"{symbol}={TOKENS}", "--duration",
             "2", "--json"], check=True, capture_output=True, text=True).stdout)
        entry = answer["benchmarks"][0]
        milliseconds = entry["real_time"] * {"ns": 1e-6, "us": 1e-3, "ms": 1, "s": 1e3}[entry["time_unit"]]
        print(f"| {level} | {milliseconds:.3f} | {flops / milliseconds / 1e9:.0f} | "
              f"{artifact.stat().st_size / 1e6:.0f} |", flush=True)
    print("\n" + "\n".join(reports))
    return 0


if __name__ == "__main__":
    sys.exit(main())
