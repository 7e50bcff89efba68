#!/usr/bin/env python3
"""Norms on an NVIDIA GPU in bfloat16: ours, PyTorch's and torch.compile's, as bytes a second beside a copy's.

  python3 benchmarks/gpu_norms.py --build build/cuda-release

Bytes are those that must move: input and result, with a residual also that and the sum; backward the gradient, the
input and the input's gradient, with a residual also the sum's gradient. Backward of the peers is autograd's, for the
input's gradient and those of the parameters, of PyTorch's norms and of compiled ones. Four sets of buffers take turns, so
that no cache holds them; calls are queued behind a kernel that waits, so that what Python needs for them is not counted.
`kpt_gpu_norm_benchmark --all-layouts` measures other ways to give rows to threads.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

SETS, REPETITIONS = 4, 30
WAIT_CYCLES = 5_000_000  # some 2.5 ms: longer than Python needs for the calls of one repetition


def measure(torch, body):
    for index in range(2 * SETS):
        body(index % SETS)
    times = []
    for _ in range(REPETITIONS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(WAIT_CYCLES)
        begin.record()
        for index in range(SETS):
            body(index)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / SETS)
    return statistics.median(times)


class Norms:
    """The four norms of one shape with their buffers, forward and backward; tensors that a call needs are a set's."""

    PARTS = {"layer_norm": 2, "rms_norm": 2, "layer_norm_residual": 4, "rms_norm_residual": 4}
    BACKWARD_PARTS = {"layer_norm": 3, "rms_norm": 3, "layer_norm_residual": 4, "rms_norm_residual": 4}

    def __init__(self, rows, width, device="cuda"):
        import torch
        options = dict(device=device, dtype=torch.bfloat16)
        self.width = width
        self.inputs = [torch.randn(rows, width, **options).requires_grad_() for _ in range(SETS)]
        self.residuals = [torch.randn(rows, width, **options) for _ in range(SETS)]
        self.weight = torch.ones(width, **options).requires_grad_()
        self.bias = torch.zeros(width, **options).requires_grad_()

    def function(self, name):
        """(input, residual) to the results of a norm."""
        from torch.nn.functional import layer_norm, rms_norm

        def normalize(x):
            if name.startswith("layer"):
                return layer_norm(x, (self.width,), self.weight, self.bias)
            return rms_norm(x, (self.width,), self.weight)

        def plain(x, residual):
            return (normalize(x),)

        def with_residual(x, residual):
            total = x + residual
            return normalize(total), total

        return with_residual if name.endswith("residual") else plain

    def forward(self, function):
        """A call by set."""
        import torch

        def body(index):
            with torch.no_grad():
                return function(self.inputs[index], self.residuals[index])
        return body

    def backward(self, name, function):
        """A call by set: gradients of its input and of the parameters, from graphs that are kept."""
        import torch
        parameters = [self.weight] + ([self.bias] if name.startswith("layer") else [])
        results = [function(self.inputs[index], self.residuals[index]) for index in range(SETS)]

        def body(index):
            # Any numbers will do as gradients: those of the residuals, which nothing else reads now.
            given = [self.residuals[index]] * len(results[index])
            return torch.autograd.grad(results[index], [self.inputs[index], *parameters], given, retain_graph=True)
        return body


def torch_rows(rows, width):
    """(what, runtime) → GB/s of PyTorch's own kernels and of compiled ones."""
    import torch
    import torch._functorch.config
    torch._functorch.config.donated_buffer = False  # graphs are kept, so that backward can be repeated
    norms = Norms(rows, width)
    one = rows * width * 2
    results = {}
    for name, parts in Norms.PARTS.items():
        plain = norms.function(name)
        torch.compiler.reset()  # all norms and shapes are one function to it, of which it compiles a few and no more
        for runtime, function in (("torch", plain), ("compile", torch.compile(plain, dynamic=False, fullgraph=True))):
            time = measure(torch, norms.forward(function))
            results[name, runtime] = parts * one / time / 1e6
            time = measure(torch, norms.backward(name, function))
            results[f"{name}_backward", runtime] = Norms.BACKWARD_PARTS[name] * one / time / 1e6
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/cuda-release"), metavar="DIR")
    arguments = parser.parse_args()
    lines = subprocess.run([str(arguments.build / "bin" / "kpt_gpu_norm_benchmark")], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    ours = [json.loads(line) for line in lines]
    copies = {(row["rows"], row["width"]): row["gb_s"] for row in ours if row["what"] == "copy"}
    peers = {shape: torch_rows(*shape) for shape in copies}
    print("| norm | rows × width | ours, GB/s | share of copy | PyTorch | torch.compile | copy |")
    print("|---|---|---|---|---|---|---|")
    for row in ours:
        if row["what"] == "copy":
            continue
        shape = (row["rows"], row["width"])
        cells = [f"{peers[shape][row['what'], runtime]:.0f}" if (row["what"], runtime) in peers[shape] else "–"
                 for runtime in ("torch", "compile")]
        print(f"| {row['what']} | {shape[0]} × {shape[1]} | {row['gb_s']:.0f} | {100 * row['gb_s'] / copies[shape]:.0f} % "
              f"| {cells[0]} | {cells[1]} | {copies[shape]:.0f} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
