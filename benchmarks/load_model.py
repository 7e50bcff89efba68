#!/usr/bin/env python3
"""What loading a large model costs: time until it is ready from a warm page cache, and growth of anonymous memory.

  load_model.py --work build/bench --build build/cpu-release [--megabytes 1000]

The model is a stack of 16 linear layers, exported into --work once. Every measurement is a fresh process; anonymous
memory is RssAnon after loading and one run, less that of the same process after loading and running a model of a few
bytes (libtorch is opened then, but there are no weights). Prints medians of ours beside torch.export.load. Ends with 1
when ours grows by more than 5 % of the weights.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

from server_process import Server

HERE = Path(__file__).resolve().parent
LAYERS = 16
MOST_GROWTH = 0.05


def export(path, width, layers):
    """A file with its inputs beside it; in a child, so that this process stays small."""
    if os.fork():
        _, status = os.wait()
        if status:
            sys.exit(f"exporting {path} failed")
        return
    sys.path.append(str(HERE.parent / "tools"))
    import blas_setting  # noqa: F401  before torch
    import torch
    from safetensors.torch import save_file
    module = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(layers)))
    x = torch.randn(1, width)
    part = path.with_name(f"part_{path.name}")
    with torch.no_grad():
        torch.export.save(torch.export.export(module, (), {"input": x}), part)
    save_file({"case0/input/input": x}, path.with_suffix(".cases.safetensors"))
    os.replace(part, path)
    os._exit(0)


def measure_process(command, environment, path):
    """Seconds from the start of the process to a loaded model, seconds of loading alone, RssAnon after a run."""
    start = time.monotonic()
    with Server(command, environment) as server:
        loaded = server.ask(f"load {path}")
        ready = time.monotonic() - start
        server.ask("run 1")
        return {"ready_s": ready, "load_s": loaded["load_seconds"],
                "anonymous_bytes": server.ask("memory")["anonymous_bytes"]}


def measure(command, environment, paths, repeats):
    """Medians over fresh processes that take turns with the tiny model."""
    figures = {name: [] for name in paths}
    for _ in range(repeats):
        for name, path in paths.items():
            figures[name].append(measure_process(command, environment, path))
    medians = {name: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
               for name, runs in figures.items()}
    growth = medians["large"]["anonymous_bytes"] - medians["tiny"]["anonymous_bytes"]
    return {**medians["large"], "growth_bytes": growth, "runs": figures}


def warm(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, metavar="DIR", help="folder for the exported models")
    parser.add_argument("--build", type=Path, required=True, metavar="DIR", help="build folder with KPT_BENCHMARKS=ON")
    parser.add_argument("--megabytes", type=int, default=1074, help="of weights")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    arguments.work.mkdir(parents=True, exist_ok=True)
    width = max(8, round((arguments.megabytes * 1e6 / 4 / LAYERS) ** 0.5) // 8 * 8)
    weights = 4 * LAYERS * width * width
    paths = {"tiny": arguments.work / "linear_stack_8.pt2", "large": arguments.work / f"linear_stack_{width}.pt2"}
    for name, path in paths.items():
        if not path.exists():
            print(f"exporting {path}", flush=True)
            export(path, 8 if name == "tiny" else width, LAYERS)
        warm(path)
    threads = str(arguments.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "KPT_THREADS": threads}
    commands = {"ours": [str(arguments.build / "bin/kpt_serve_models")],
                "torch.export.load": [sys.executable, str(HERE / "eager_models.py"), "--serve", "--plain", "--threads",
                                      threads]}
    results = {}
    print(f"{weights / 1e6:.0f} MB of weights, {arguments.repeats} fresh processes each, warm page cache, medians")
    for name, command in commands.items():
        row = results[name] = measure(command, environment, paths, arguments.repeats)
        print(f"{name:20} loads in {row['load_s']:7.3f} s, process start to ready {row['ready_s']:7.3f} s, anonymous memory "
              f"grows by {row['growth_bytes'] / 1e6:8.1f} MB ({100 * row['growth_bytes'] / weights:.2f} % of the weights)",
              flush=True)
    (arguments.work / "load_model.json").write_text(json.dumps({"weight_bytes": weights, **results}, indent=1) + "\n")
    if results["ours"]["growth_bytes"] > MOST_GROWTH * weights:
        print(f"ours grows by more than {100 * MOST_GROWTH:.0f} % of the weights")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
