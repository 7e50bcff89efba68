#!/usr/bin/env python3
"""Ours against PyTorch eager on the same exported models, in one run: both processes stay up and take turns.

  compare_models.py --models build/models --ours build/cpu-release/bin/kpt_serve_models --threads 2 [--only 'bert*'] [--json]

Per model: median of eager and of ours in milliseconds, their ratio (above 1: ours is faster) with the spread of the
ratio over the rounds, the time of loading, and the growth of anonymous memory per byte of weights.
"""

import argparse
import fnmatch
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path


class Server:
    """A process that obeys load and run."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("the process ended")
        answer = json.loads(answer)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def measure(eager, ours, arguments, entry):
    """Alternates between the two, so that a change of the machine's speed meets both."""
    path = arguments.models / entry["file"]
    loaded = {"eager": eager.ask(f"load {path}"), "ours": ours.ask(f"load {path}")}
    servers = {"eager": eager, "ours": ours}
    for server in servers.values():
        server.ask(f"run {arguments.warmup}")
    first = servers["eager"].ask("run 1")["times_ms"][0]
    count = max(1, min(200, int(arguments.round_ms / max(first, 1e-3))))
    times = {"eager": [], "ours": []}
    for index in range(arguments.rounds):
        order = ("eager", "ours") if index % 2 == 0 else ("ours", "eager")
        for name in order:
            times[name].append(statistics.median(servers[name].ask(f"run {count}")["times_ms"]))
    ratios = sorted(e / o for e, o in zip(times["eager"], times["ours"]))
    weights = max(1, entry["parameter_bytes"])
    return {
        "name": entry["name"], "eager_ms": statistics.median(times["eager"]), "ours_ms": statistics.median(times["ours"]),
        "ratio": statistics.median(ratios), "ratio_min": ratios[0], "ratio_max": ratios[-1],
        "eager_load_s": loaded["eager"]["load_seconds"], "ours_load_s": loaded["ours"]["load_seconds"],
        "eager_anonymous": (loaded["eager"]["anonymous_bytes"] or 0) / weights,
        "ours_anonymous": loaded["ours"]["anonymous_bytes"] / weights, "weight_mb": weights / 1e6,
    }


def print_row(row):
    print(f"{row['name']:32} {row['eager_ms']:10.3f} {row['ours_ms']:10.3f} {row['ratio']:7.3f}"
          f" ({row['ratio_min']:.3f}–{row['ratio_max']:.3f}) {row['eager_load_s']:8.2f} {row['ours_load_s']:8.3f}"
          f" {100 * row['eager_anonymous']:8.0f}% {100 * row['ours_anonymous']:7.1f}%  {row['weight_mb']:.1f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True)
    parser.add_argument("--ours", type=Path, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="*", default=["*"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--round-ms", type=float, default=300)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "KPT_THREADS": str(arguments.threads)}
    script = Path(__file__).with_name("eager_models.py")
    eager = Server([sys.executable, str(script), "--serve", "--threads", str(arguments.threads)], environment)
    ours = Server([str(arguments.ours)], environment)
    entries = json.loads((arguments.models / "index.json").read_text())["models"]
    entries = [e for e in entries if any(fnmatch.fnmatch(e["name"], pattern) for pattern in arguments.only)]
    if not arguments.json:
        print(f"{'model':32} {'eager ms':>10} {'ours ms':>10} {'ratio':>7} {'(spread)':13} {'load s':>8} {'load s':>8}"
              f" {'anon':>9} {'anon':>8}  weights MB")
    slower = 0
    for entry in entries:
        row = measure(eager, ours, arguments, entry)
        slower += row["ratio"] < 0.98
        print(json.dumps(row), flush=True) if arguments.json else print_row(row)
    eager.stop()
    ours.stop()
    if not arguments.json:
        print(f"{len(entries)} models, {slower} below 0.98")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
