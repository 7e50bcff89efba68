#!/usr/bin/env python3
"""A chain of tiny operations, where the time is all overhead: exports it and measures eager PyTorch per operation.

  tiny_chain.py --out build/tiny_chain.pt2 [--ops 1000] [--repeats 30]

Prints one line of JSON: nanoseconds per operation in eager Python, and through the exported program's module.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import sys

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import blas_setting  # noqa: E402, F401  before torch

import torch  # noqa: E402


class TinyChain(torch.nn.Module):
    """add, mul and relu in turn on 8 numbers."""

    def __init__(self, ops):
        super().__init__()
        self.ops = ops
        self.addend = torch.nn.Parameter(torch.linspace(-0.5, 0.5, 8))
        self.factor = torch.nn.Parameter(torch.linspace(0.9, 1.1, 8))

    def forward(self, x):
        for index in range(self.ops):
            if index % 3 == 0:
                x = x + self.addend
            elif index % 3 == 1:
                x = x * self.factor
            else:
                x = torch.relu(x)
        return x


def measure(function, x, ops, repeats):
    """Nanoseconds per operation, for each repeat."""
    for _ in range(5):
        function(x)
    times = []
    for _ in range(repeats):
        start = time.perf_counter_ns()
        function(x)
        times.append((time.perf_counter_ns() - start) / ops)
    return times


def summarize(times):
    return {"median_ns": round(statistics.median(times), 1), "least_ns": round(min(times), 1),
            "most_ns": round(max(times), 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the exported program")
    parser.add_argument("--ops", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=30)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    module, x = TinyChain(arguments.ops).eval(), torch.linspace(-1, 1, 8)
    with torch.no_grad():
        exported = torch.export.export(module, (x,), strict=False)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(exported, arguments.out)
    loaded = torch.export.load(arguments.out).module()
    with torch.inference_mode():
        eager = measure(module, x, arguments.ops, arguments.repeats)
        replayed = measure(loaded, x, arguments.ops, arguments.repeats)
    print(json.dumps({"file": str(arguments.out), "ops": arguments.ops, "torch": torch.__version__,
                      "eager": summarize(eager), "exported_module": summarize(replayed)}))


if __name__ == "__main__":
    main()
