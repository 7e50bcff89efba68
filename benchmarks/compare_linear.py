#!/usr/bin/env python3
"""Our packed matrix products beside torch.nn.functional.linear: GFLOP/s, ratio, share of the arithmetic floor.

    benchmarks/compare_linear.py build/cpu-release/bin/kpt_linear_benchmark

Both sides run in turn, several times; the best of each counts, because other work on the machine only ever adds time.
"""

import argparse
import json
import subprocess
import time

import torch

SHAPES = [(128, 384, 384), (128, 768, 768), (128, 3072, 768), (128, 768, 3072), (1, 768, 768), (1, 3072, 768),
          (8, 768, 768)]


def time_torch(shape, dtype, threads, seconds):
    rows, columns, depth = shape
    torch.set_num_threads(threads)
    inputs = torch.randn(rows, depth, dtype=dtype)
    weight = torch.randn(columns, depth, dtype=dtype)
    bias = torch.randn(columns, dtype=dtype)
    # One thread: the processor's time, so that others on the machine do not count.
    clock = time.process_time if threads == 1 else time.perf_counter
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = clock()
        torch.nn.functional.linear(inputs, weight, bias)
        best = min(best, clock() - start)
    return 2e-9 * rows * columns * depth / best


def time_ours(program, shape, threads):
    size = "x".join(map(str, shape))
    command = [program, f"--benchmark_filter=register_peak|/{size}/threads:{threads}", "--benchmark_format=json",
               "--benchmark_min_time=0.02", "--benchmark_repetitions=10"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    best = {}
    for run in report["benchmarks"]:
        if run["run_type"] == "iteration":
            name = run["run_name"].split("/")
            key = name[1] if len(name) > 1 else name[0]
            best[key] = max(best.get(key, 0), run["GFLOP/s"])
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    arguments = parser.parse_args()
    torch.set_grad_enabled(False)
    print("| threads | M x N x K | kernel | GFLOP/s | libtorch, same type | ratio | share of the float32 floor |")
    print("|---|---|---|---|---|---|---|")
    for threads in arguments.threads:
        for shape in SHAPES:
            theirs = {"float32": 0, "bfloat16": 0}
            ours = {}
            for _ in range(arguments.rounds):
                for name in theirs:
                    theirs[name] = max(theirs[name], time_torch(shape, getattr(torch, name), threads, 0.3))
                for kernel, rate in time_ours(arguments.program, shape, threads).items():
                    ours[kernel] = max(ours.get(kernel, 0), rate)
            floor = ours.pop("register_peak") * threads
            for kernel, rate in ours.items():
                peer = theirs.get(kernel.split(" ")[0], theirs["float32"])
                print(f"| {threads} | {' x '.join(map(str, shape))} | {kernel} | {rate:.1f} | {peer:.1f} | "
                      f"{rate / peer:.2f} | {100 * rate / floor:.0f} % |", flush=True)


if __name__ == "__main__":
    main()
