#!/usr/bin/env python3
"""Norms on an NVIDIA GPU in bfloat16: ours, PyTorch's and torch.compile's, as bytes a second beside a copy's.

  python3 benchmarks/gpu_norms.py --build build/cuda-release

Bytes are those that must move: input and result, with a residual also that and the sum; backward the gradient, the
input and the input's gradient, with a residual also the sum's gradient. Four sets of buffers take turns, so that no
cache holds them. `kpt_gpu_norm_benchmark --all-layouts` measures other ways to give rows to threads.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

SETS, REPETITIONS = 4, 30


def measure(torch, body):
    for index in range(2 * SETS):
        body(index % SETS)
    times = []
    for _ in range(REPETITIONS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for index in range(SETS):
            body(index)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / SETS)
    return statistics.median(times)


def torch_rows(rows, width):
    """(what, runtime) → GB/s of PyTorch's own kernels and of compiled ones."""
    import torch
    from torch.nn.functional import layer_norm, rms_norm
    options = dict(device="cuda", dtype=torch.bfloat16)
    inputs = [torch.randn(rows, width, **options) for _ in range(SETS)]
    residuals = [torch.randn(rows, width, **options) for _ in range(SETS)]
    weight, bias = torch.ones(width, **options), torch.zeros(width, **options)
    one = rows * width * 2

    def layer(x, r):
        return layer_norm(x, (width,), weight, bias)

    def rms(x, r):
        return rms_norm(x, (width,), weight)

    def layer_residual(x, r):
        s = x + r
        return layer_norm(s, (width,), weight, bias), s

    def rms_residual(x, r):
        s = x + r
        return rms_norm(s, (width,), weight), s

    results = {}
    cases = {"layer_norm": (layer, 2), "rms_norm": (rms, 2), "layer_norm_residual": (layer_residual, 4),
             "rms_norm_residual": (rms_residual, 4)}
    for name, (function, parts) in cases.items():
        for runtime, body in (("torch", function), ("compile", torch.compile(function, dynamic=False))):
            with torch.no_grad():
                time = measure(torch, lambda index: body(inputs[index], residuals[index]))
            results[name, runtime] = parts * one / time / 1e6
    mean, scale = torch.zeros(rows, 1, device="cuda"), torch.ones(rows, 1, device="cuda")
    time = measure(torch, lambda index: torch.ops.aten.native_layer_norm_backward(
        residuals[index], inputs[index], [width], mean, scale, weight, bias, [True, True, True]))
    results["layer_norm_backward", "torch"] = 3 * one / time / 1e6
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
