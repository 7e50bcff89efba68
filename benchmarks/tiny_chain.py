#!/usr/bin/env python3
"""A chain of tiny operations, where the time is all overhead: ours, a plain C++ loop over ATen, and eager in Python.

  tiny_chain.py --work build/bench --build build/cpu-release [--ops 1000]

All processes stay up and take turns, one thread each. Prints nanoseconds per operation of each, and its ratio to ours
(above 1: ours is faster), paired by round, with the 95 % interval of the median; writes tiny_chain.json to --work. Ends
with 1 when ours is slower than eager in Python: the whole interval below 0.98.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

from compare_table import LEAST_ROUNDS, order_interval
from server_process import Server

sys.path.append(str(Path(__file__).resolve().parents[1] / "tools"))
import blas_setting  # noqa: E402, F401  before torch

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

LEAST_RATIO = 0.98
TITLES = {"ours": "ours", "plain": "C++ loop over ATen", "module": "eager Python, nn.Module",
          "program": "eager Python, exported program"}


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


def export(module, x, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        torch.export.save(torch.export.export(module, (x,), strict=False), path)
    save_file({"case0/input/x": x}, path.with_suffix(".cases.safetensors"))


def run_here(module, x, count):
    """Milliseconds of each run in this process."""
    times = []
    with torch.inference_mode():
        for _ in range(count):
            start = time.perf_counter_ns()
            module(x)
            times.append((time.perf_counter_ns() - start) / 1e6)
    return times


def measure(runs, rounds, count):
    """Medians of each by round, in milliseconds; the order changes from round to round."""
    for run in runs.values():
        run(count)
    times, names = {name: [] for name in runs}, list(runs)
    for index in range(rounds):
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            times[name].append(statistics.median(runs[name](count)))
    return times


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="folder for the exported chain")
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="build folder with KPT_BENCHMARKS=ON")
    parser.add_argument("--ops", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runs", type=int, default=30, help="runs of the chain in each round")
    arguments = parser.parse_args()
    if arguments.rounds < LEAST_ROUNDS:
        parser.error(f"--rounds must be at least {LEAST_ROUNDS}")
    return arguments


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    module, x = TinyChain(arguments.ops).eval(), torch.linspace(-1, 1, 8)
    path = arguments.work / "tiny_chain.pt2"
    export(module, x, path)
    program = torch.export.load(path).module()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "KPT_THREADS": "1"}
    with Server([str(arguments.build / "bin/kpt_serve_models")], environment) as ours, \
            Server([str(arguments.build / "bin/kpt_chain_benchmark"), str(arguments.ops)], environment) as plain:
        ours.ask(f"load {path}")
        times = measure({"ours": lambda count: ours.ask(f"run {count}")["times_ms"],
                         "plain": lambda count: plain.ask(f"run {count}")["times_ms"],
                         "module": lambda count: run_here(module, x, count),
                         "program": lambda count: run_here(program, x, count)}, arguments.rounds, arguments.runs)
    rows = {}
    print(f"{arguments.ops} operations on 8 numbers, one thread, torch {torch.__version__}")
    for name, own in times.items():
        ratios = [other / ours for other, ours in zip(own, times["ours"])]
        rows[name] = {"ns_per_op": 1e6 * statistics.median(own) / arguments.ops,
                      "ratio": [statistics.median(ratios), *order_interval(ratios)]}
        print("{:32} {:8.0f} ns  {:6.2f} ({:.2f}–{:.2f})".format(TITLES[name], rows[name]["ns_per_op"], *rows[name]["ratio"]))
    (arguments.work / "tiny_chain.json").write_text(
        json.dumps({"ops": arguments.ops, "torch": torch.__version__, "times_ms": times, "rows": rows}, indent=1) + "\n")
    slower = [TITLES[name] for name in ("module", "program") if rows[name]["ratio"][2] < LEAST_RATIO]
    if slower:
        print(f"ours is slower than {' and '.join(slower)}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
