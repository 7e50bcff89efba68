#!/usr/bin/env python3
"""Ours against PyTorch eager on the same exported models, in one run: the processes stay up and take turns.

  compare_models.py --models build/models --ours build/cpu-release/bin/kpt_serve_models --threads 2 [--only 'bert*']

Eager is measured twice: as the exported program (torch.export.load(file).module()), and as the nn.Module that it was
exported from, built again with the same weights. The ratio is that of the faster one over ours (above 1: ours is
faster), paired by round, with the 95 % interval of its median. Also printed: the time of loading, and the growth of
anonymous memory per byte of weights. All figures go to --json. A model whose median is below 0.98 takes twice as many
rounds more. Ends with 1, naming the models, when a median is below 0.98 then or a model could not be measured. What
cannot take part is named with the reason. A model whose runs take places in a cache begins anew before it is full, all
three at the same runs; that is not timed.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

from chosen_models import count_steps, is_chosen, read_index
from compare_table import LEAST_ROUNDS, order_interval
from server_process import Failed, Server

LEAST_RATIO = 0.98
NAMES = ("program", "module", "ours")
HERE = Path(__file__).resolve().parent


def find_obstacle(entry, free_bytes):
    """Why a model cannot be measured here; None where it can."""
    needed = 2.5 * entry["parameter_bytes"]  # PyTorch has the weights in two processes, ours in the page cache
    if free_bytes is not None and needed > free_bytes:
        return f"needs {needed / 1e9:.1f} GB of memory, {free_bytes / 1e9:.1f} GB are free"
    return None


def read_free_bytes():
    """MemAvailable; None where the system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def measure(servers, arguments, entry):
    """Takes turns, so that a change of the machine's speed meets all."""
    path = arguments.models / entry["file"]
    loaded = {"program": servers["program"].ask(f"load {path}"),
              "module": servers["module"].ask(f"build {arguments.models} {entry['name']}"),
              "ours": servers["ours"].ask(f"load {path}")}
    steps = count_steps(entry)
    anew = f" {steps}" if steps else ""
    for server in servers.values():
        server.ask(f"run {arguments.warmup}{anew}")
    first = max(servers["ours"].ask(f"run 1{anew}")["times_ms"][0], 1e-3)
    count = max(1, min(200, int(arguments.round_ms / first)))
    times = {name: [] for name in NAMES}
    take_turns(servers, times, f"run {count}{anew}", arguments.rounds)
    if is_slower(judge(times)):  # or so it seems
        take_turns(servers, times, f"run {count}{anew}", 2 * arguments.rounds)
    weights = max(1, entry["parameter_bytes"])
    return {"name": entry["name"], "times_ms": times, **judge(times), "weight_mb": weights / 1e6,
            "load_s": {name: loaded[name]["load_seconds"] for name in ("program", "ours")},
            "anonymous": {name: (loaded[name]["anonymous_bytes"] or 0) / weights for name in ("program", "ours")}}


def take_turns(servers, times, command, rounds):
    for index in range(rounds):
        for name in NAMES[index % 3:] + NAMES[:index % 3]:
            times[name].append(statistics.median(servers[name].ask(command)["times_ms"]))


def judge(times):
    """The faster form of eager, and (median, low, high) of its time over ours."""
    against = min(("program", "module"), key=lambda name: statistics.median(times[name]))
    ratios = [eager / ours for eager, ours in zip(times[against], times["ours"])]
    return {"against": against, "ratio": [statistics.median(ratios), *order_interval(ratios)]}


def is_slower(row):
    return row["ratio"][0] < LEAST_RATIO


def format_row(row):
    program, module, ours = (statistics.median(row["times_ms"][name]) for name in NAMES)
    median, low, high = row["ratio"]
    return (f"{row['name']:32} {program:10.3f} {module:10.3f} {ours:10.3f} {median:7.3f} ({low:.3f}–{high:.3f})"
            f" {row['load_s']['program']:8.2f} {row['load_s']['ours']:8.3f} {100 * row['anonymous']['program']:8.0f}%"
            f" {100 * row['anonymous']['ours']:7.1f}%  {row['weight_mb']:.1f}")


HEADING = (f"{'':9} {'model':32} {'program ms':>10} {'module ms':>10} {'ours ms':>10} {'ratio':>7} {'(95 %)':13}"
           f" {'load s':>8} {'load s':>8} {'anon':>9} {'anon':>8}  weights MB")


def measure_all(servers, arguments, entries):
    """(rows, what was left out, what failed)."""
    rows, left_out, failed = [], {}, {}
    print(HEADING, flush=True)
    for number, entry in enumerate(entries, 1):
        place = f"[{number:3}/{len(entries):3}]"
        obstacle = find_obstacle(entry, read_free_bytes())
        if obstacle:
            left_out[entry["name"]] = obstacle
            print(f"{place} {entry['name']:32} left out: {obstacle}", flush=True)
            continue
        for server in servers.values():
            server.restart_if_ended()  # one that a model before this has killed
        try:
            rows.append(measure(servers, arguments, entry))
            print(f"{place} {format_row(rows[-1])}{'  SLOWER' if is_slower(rows[-1]) else ''}", flush=True)
        except Failed as problem:
            failed[entry["name"]] = str(problem)
            print(f"{place} {entry['name']:32} failed: {problem}", flush=True)
    return rows, left_out, failed


def start_servers(arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "KPT_THREADS": str(arguments.threads)}
    eager = [sys.executable, str(arguments.eager), "--serve", "--threads", str(arguments.threads)]
    return {"program": Server(eager, environment), "module": Server(eager, environment),
            "ours": Server([str(arguments.ours)], environment)}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, required=True, metavar="DIR", help="what export_models.py wrote")
    parser.add_argument("--ours", type=Path, required=True, help="kpt_serve_models")
    parser.add_argument("--eager", type=Path, default=HERE / "eager_models.py", help="the script that runs PyTorch")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="names or patterns")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--round-ms", type=float, default=300)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="default: compare_models.json in DIR")
    arguments = parser.parse_args()
    if arguments.rounds < LEAST_ROUNDS:
        parser.error(f"--rounds must be at least {LEAST_ROUNDS}")
    arguments.json = arguments.json or arguments.models / "compare_models.json"
    return arguments


def main():
    arguments = parse_arguments()
    index = read_index(arguments.models)
    entries = [entry for entry in index["models"] if is_chosen(entry, arguments.only)]
    if not entries:
        print(f"no model of {arguments.models} is named {' '.join(arguments.only)}", file=sys.stderr)
        return 2
    servers = start_servers(arguments)
    try:
        rows, left_out, failed = measure_all(servers, arguments, entries)
    finally:
        for server in servers.values():
            server.stop()
    slower = [row["name"] for row in rows if is_slower(row)]
    arguments.json.write_text(json.dumps({
        "threads": arguments.threads, "torch": index["torch"], "seed": index["seed"], "size": index["size"],
        "models": rows, "left_out": left_out, "failed": failed, "slower": slower}, indent=1) + "\n")
    print(f"{len(rows)} models measured, {len(left_out)} left out, {len(failed)} failed, {len(slower)} below "
          f"{LEAST_RATIO}{': ' + ', '.join(slower) if slower else ''}; see {arguments.json}")
    return 1 if slower or failed else 0


if __name__ == "__main__":
    sys.exit(main())
