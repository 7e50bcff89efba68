#!/usr/bin/env python3
"""A PJRT plugin under us and under JAX: the same two models on it, from our lowering and written in jax.numpy.

  python benchmarks/jax_equivalents.py --out build/jax --build build/cuda-release --device xla:cuda
  python benchmarks/jax_equivalents.py --out build/jax --build build/cuda-release --jax-python /other/env/bin/python

BERT-base (1x128) and ViT-B/16 (batch 1), float32, products in full precision on both sides. JAX gets the weights of the
exported file (jax_models.py), so the answers must agree; both are also held against fp64. Weights lie on the device,
inputs come from the host and answers go there in every run. The two processes take turns. Writes jax.md and jax.json to
--out; ends with 1 when the answers of a model do not agree.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time
from pathlib import Path

from chosen_models import read_index
from compare_table import LEAST_ROUNDS, order_interval
from runtime_process import Lost, Server, run_bounded

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent
# Model, shape and heads, by the size that is exported.
ROWS = {"full": (("bert", "1x128", 12), ("vit", "1", 12)), "small": (("bert", "1x16", 4), ("vit", "1", 4))}
MOST_DIFFERENCE = 1e-3  # between the two, relative to the root mean square; float32 in another order of additions


def export(arguments):
    patterns = [f"{model}_fp32_static:{shape}" for model, shape, _ in ROWS[arguments.size]]
    command = [sys.executable, str(SOURCE / "tests/models/export_models.py"), "--out", str(arguments.models), "--size",
               arguments.size, "--reuse", "--only", *patterns]
    try:
        done = run_bounded(command, None, arguments.limit_s * len(patterns), shown=True)
    except Lost as reason:
        raise SystemExit(f"jax_equivalents: {reason}") from None
    if done.returncode != 0:
        raise SystemExit("jax_equivalents: the models could not be exported")


def write_weights(entry, arguments):
    """The state dict of the exported program as safetensors: JAX's environment need not hold torch."""
    target = arguments.out / f"{entry['name']}.weights.safetensors"
    source = arguments.models / entry["file"]
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        from safetensors.torch import save_file

        from peer_models import load_program
        state = load_program(source).state_dict
        save_file({name: tensor.detach().contiguous().clone() for name, tensor in state.items()}, target)
    return target


def start(command, file, entry, arguments, name):
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads), "KPT_THREADS": str(arguments.threads),
                   "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    server = Server(command, environment, arguments.out / f"{entry['name']}.{name}.txt", arguments.limit_s)
    try:
        server.answer = server.ask(f"load {file} {arguments.models / entry['cases_file']}")
        server.ask(f"run {arguments.warmup}")
    except Lost:
        server.stop()
        raise
    return server


def read_outputs(server, arguments):
    from safetensors.torch import load_file
    file = arguments.out / "outputs.safetensors"
    server.ask(f"outputs {file}")
    given = load_file(file)
    file.unlink()
    return [given[str(index)].double() for index in range(len(given))]


def difference(values, reference):
    """Largest over the outputs, relative to the reference's root mean square; infinite where one is not finite."""
    worst = 0.0
    for value, expected in zip(values, reference, strict=True):
        if value.shape != expected.shape:
            return math.inf
        scale = float(expected.square().mean().sqrt()) or 1.0
        error = float((value - expected).square().mean().sqrt()) / scale
        if not (math.isfinite(scale) and math.isfinite(error)):  # NaN would lose every comparison, and so agree
            return math.inf
        worst = max(worst, error)
    return worst


def measure(servers, arguments):
    counts = {name: max(1, min(200, int(arguments.round_ms / max(server.ask("run 1")["times_ms"][0], 1e-3))))
              for name, server in servers.items()}
    times = {name: [] for name in servers}
    for index in range(arguments.rounds):
        for name in list(servers) if index % 2 == 0 else list(servers)[::-1]:
            time.sleep(arguments.pause_ms / 1e3)  # idle threads of the one before stop spinning
            servers[name].ask("run 1")
            times[name].append(statistics.median(servers[name].ask(f"run {counts[name]}")["times_ms"]))
    return times


def compare(model, heads, entry, arguments):
    from safetensors.torch import load_file
    cases = load_file(arguments.models / entry["cases_file"])
    fp64 = [cases[f"case0/fp64/{name}"].double() for name in entry["outputs"]]
    commands = {"ours": ([str(arguments.build / "bin" / "kpt_serve_models"), arguments.device],
                         arguments.models / entry["file"]),
                "jax": ([arguments.jax_python, str(HERE / "jax_models.py"), "--model", model, "--heads", str(heads)],
                        write_weights(entry, arguments))}
    servers = {}
    try:
        for name, (command, file) in commands.items():
            servers[name] = start(command, file, entry, arguments, name)
        outputs = {name: read_outputs(server, arguments) for name, server in servers.items()}
        times = measure(servers, arguments)
        return {"name": entry["name"], "times_ms": times, "jax_device": servers["jax"].answer["device"],
                "load_s": {name: server.answer["load_seconds"] for name, server in servers.items()},
                "errors": {name: difference(found, fp64) for name, found in outputs.items()},
                "difference": difference(outputs["ours"], outputs["jax"])}
    finally:
        for server in servers.values():
            server.stop()


def make_table(rows, device):
    lines = [f"| model | ours on {device}, ms | JAX, ms | JAX over ours (95 %) | ours loads, s | JAX compiles, s | ours "
             "against fp64 | JAX against fp64 | between them |", "|" + "---|" * 9]
    for row in rows:
        if "failed" in row:
            lines.append(f"| {row['name']} | {row['failed']} |" + " |" * 7)
            continue
        ours, jax = (row["times_ms"][name] for name in ("ours", "jax"))
        ratios = [j / o for j, o in zip(jax, ours)]
        low, high = order_interval(ratios)
        lines.append(f"| {row['name']} | {statistics.median(ours):.3f} | {statistics.median(jax):.3f} | "
                     f"{statistics.median(ratios):.2f} ({low:.2f}–{high:.2f}) | {row['load_s']['ours']:.1f} | "
                     f"{row['load_s']['jax']:.1f} | {row['errors']['ours']:.1e} | {row['errors']['jax']:.1e} | "
                     f"{row['difference']:.1e}{'' if agrees(row) else ' (differs)'} |")
    return "\n".join(lines) + "\n"


def agrees(row):
    return "failed" not in row and row["difference"] <= MOST_DIFFERENCE


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--models", type=Path, metavar="DIR", help="exported models (default: exported to OUT/models)")
    parser.add_argument("--build", type=Path, default=SOURCE / "build/cuda-release", metavar="DIR")
    parser.add_argument("--device", default="xla:cuda")
    parser.add_argument("--size", choices=tuple(ROWS), default="full")
    parser.add_argument("--jax-python", default=sys.executable, help="interpreter with jax, numpy and safetensors")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--round-ms", type=float, default=200)
    parser.add_argument("--pause-ms", type=float, default=100)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--limit-s", type=int, default=300,
                        help="for one answer of a process, and for the export of a model")
    arguments = parser.parse_args()
    if arguments.rounds < LEAST_ROUNDS:
        parser.error(f"--rounds must be at least {LEAST_ROUNDS}")
    arguments.out = arguments.out.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.models is None:
        arguments.models = arguments.out / "models"
        export(arguments)
    return arguments


def main():
    arguments = parse_arguments()
    known = {entry["name"]: entry for entry in read_index(arguments.models)["models"]}
    rows = []
    for model, shape, heads in ROWS[arguments.size]:
        name = f"{model}_fp32_static_{shape}"
        print(f"{name} …", file=sys.stderr, flush=True)
        try:
            rows.append(compare(model, heads, known[name], arguments))
        except (Lost, KeyError) as reason:
            rows.append({"name": name, "failed": str(reason)})
        (arguments.out / "jax.json").write_text(json.dumps({"device": arguments.device, "models": rows}, indent=1) + "\n")
        (arguments.out / "jax.md").write_text(make_table(rows, arguments.device))
    print(make_table(rows, arguments.device))
    return 0 if all(map(agrees, rows)) else 1


if __name__ == "__main__":
    sys.exit(main())
