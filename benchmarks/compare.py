#!/usr/bin/env python3
"""Ours beside PyTorch, ONNX Runtime and OpenVINO: same weights, inputs and threads, outputs checked against fp64.

  docs/how_to/benchmark_a_model.md                                                 how to build kpt and kpt_serve_models
  $(tools/setup_peers.sh) benchmarks/compare.py --out build/compare                everything: exports, optimizes, measures
  $(tools/setup_peers.sh) benchmarks/compare.py --out build/compare --only 'minilm*' --rounds 9
  $(tools/setup_peers.sh) benchmarks/compare.py --out build/compare --startup      start-up alone
  python3 benchmarks/compare.py --out build/compare --device nvidia:0 --dtype bfloat16 --build build/cuda-release

Each runtime is a process of its own. All processes of a model stay up and take turns, in alternating order; a round
gives one median for each, and ratios are taken within rounds, so that a change of the machine's speed meets both sides.
Where memory does not hold all at once, each runtime takes turns with eager alone. Writes results.md and results.json to
--out. Needs a quiet machine: nothing else should run.
"""

import argparse
import fnmatch
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import compare_table

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent
LEVELS = ("conservative", "balanced", "aggressive")
PEERS = ("eager", "compile", "compile_best", "onnxruntime", "openvino", "onnxruntime_int8")
GPU_PEERS = ("eager", "compile", "compile_graphs", "compile_best")
OURS = ("ours_plain",) + tuple(f"ours_{level}" for level in LEVELS)


class Lost(Exception):
    """A runtime that cannot take part; the text says why."""


class Server:
    """A process that obeys load, run and outputs."""

    def __init__(self, command, environment, log, limit_s):
        self.log = open(log, "w")
        self.limit_s = limit_s
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        text=True, env=environment)

    def ask(self, line):
        def too_late(_signal, _frame):
            raise Lost(f"no answer within {self.limit_s} s")
        previous = signal.signal(signal.SIGALRM, too_late)
        signal.alarm(self.limit_s)
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, previous)
        if not answer:
            raise Lost(f"the process ended with status {self.process.wait()}; see {self.log.name}")
        answer = json.loads(answer)
        if "error" in answer:
            raise Lost(answer["error"])
        return answer

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def environment_of(arguments):
    threads = str(arguments.threads)
    return {**os.environ, "OMP_NUM_THREADS": threads, "KPT_THREADS": threads, "MKL_NUM_THREADS": threads,
            "TORCHINDUCTOR_CACHE_DIR": str(arguments.out / "inductor")}


def command_of(runtime, arguments):
    if runtime in OURS:
        return [str(arguments.build / "bin" / "kpt_serve_models"), arguments.device]
    return [sys.executable, str(HERE / "peer_models.py"), "--runtime", runtime, "--threads", str(arguments.threads),
            "--work", str(arguments.out / "onnx"), "--device", arguments.torch_device]


def file_of(runtime, entry, arguments):
    """The file that a runtime loads; levels of ours are made here, once."""
    plain = arguments.models / entry["file"]
    if not runtime.startswith("ours_") or runtime == "ours_plain":
        return plain
    level = runtime.removeprefix("ours_")
    target = arguments.out / "artifacts" / f"{entry['name']}.{level}.kpt"
    if target.exists() and target.stat().st_mtime > (arguments.build / "bin" / "kpt").stat().st_mtime:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([str(arguments.build / "bin" / "kpt"), "optimize", str(plain), "--level", level, "--device",
                           arguments.device, "-o", str(target)],
                          env=environment_of(arguments), capture_output=True, text=True)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()
        word = "refused by the gate" if done.returncode == 3 else f"kpt optimize ended with {done.returncode}"
        raise Lost(f"{word}: {lines[-1]}")
    return target


def start(runtime, entry, arguments):
    """A server with the model loaded and warm."""
    path = file_of(runtime, entry, arguments)
    logs = arguments.out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    server = Server(command_of(runtime, arguments), environment_of(arguments), logs / f"{entry['name']}.{runtime}.txt",
                    arguments.limit_s)
    try:
        server.load_seconds = server.ask(f"load {path} {arguments.models / entry['cases_file']}")["load_seconds"]
        server.ask(f"run {arguments.warmup}")
    except Lost:
        server.stop()
        raise
    return server


def check_outputs(server, entry, arguments, runtime):
    """Worst relative error and least cosine against fp64 over the floating-point outputs."""
    import numpy
    from safetensors.torch import load_file
    file = arguments.out / "outputs.safetensors"
    server.ask(f"outputs {file}")
    given = load_file(file)
    file.unlink()
    cases = load_file(arguments.models / entry["cases_file"])
    names = entry["outputs"]
    if len(given) != len(names):
        raise Lost(f"gives {len(given)} outputs, the model has {len(names)}")
    worst, cosine = 0.0, 1.0
    for index, name in enumerate(names):
        reference = cases.get(f"case0/fp64/{name}")
        if reference is None:
            continue
        ours = given[str(index)].double().numpy().reshape(-1)
        reference = reference.double().numpy().reshape(-1)
        if ours.shape != reference.shape or not numpy.isfinite(ours).all():
            raise Lost(f"output {name} has another size or is not finite")
        scale = math.sqrt(float((reference ** 2).mean())) or 1.0
        worst = max(worst, math.sqrt(float(((ours - reference) ** 2).mean())) / scale)
        product = float(numpy.linalg.norm(ours) * numpy.linalg.norm(reference))
        cosine = min(cosine, float(ours @ reference) / product if product else 1.0)
    return {"error": worst, "cosine": cosine}


def take_turns(servers, arguments):
    """One median for each runtime and round; the order turns round every time."""
    first = {name: server.ask("run 1")["times_ms"][0] for name, server in servers.items()}
    counts = {name: max(1, min(200, int(arguments.round_ms / max(ms, 1e-3)))) for name, ms in first.items()}
    times = {name: [] for name in servers}
    names = list(servers)
    for index in range(arguments.rounds):
        order = names[index % len(names):] + names[:index % len(names)]
        for name in order if index % 2 == 0 else order[::-1]:
            time.sleep(arguments.pause_ms / 1e3)  # idle threads of the one before stop spinning
            servers[name].ask("run 1")
            times[name].append(statistics.median(servers[name].ask(f"run {counts[name]}")["times_ms"]))
    return times


def available_bytes():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def measure_group(runtimes, entry, arguments, row):
    servers = {}
    try:
        for runtime in runtimes:
            try:
                servers[runtime] = start(runtime, entry, arguments)
                row["checks"][runtime] = check_outputs(servers[runtime], entry, arguments, runtime)
                row["load_s"][runtime] = servers[runtime].load_seconds
            except Lost as reason:
                row["absent"][runtime] = str(reason)
                if runtime in servers:
                    servers.pop(runtime).stop()
        if "eager" not in servers:
            raise Lost("eager itself does not run")
        return take_turns(servers, arguments)
    finally:
        for server in servers.values():
            server.stop()


def measure_model(entry, arguments):
    row = {"name": entry["name"], "architecture": entry["architecture"], "dtype": entry["dtype"],
           "weight_bytes": entry["parameter_bytes"],
           "checks": {}, "load_s": {}, "absent": {}, "rounds": []}
    need = (2 * len(arguments.runtimes) * entry["parameter_bytes"]) + (len(arguments.runtimes) * 600e6)
    if need < 0.8 * available_bytes():
        row["rounds"].append(measure_group(arguments.runtimes, entry, arguments, row))
    else:
        for runtime in arguments.runtimes:
            if runtime != "eager":
                row["rounds"].append(measure_group(("eager", runtime), entry, arguments, row))
    return row


def first_answer_ms(command, environment, limit_s):
    """From the start of a process to the line that says that its answer is there."""
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    line = process.stdout.readline()
    took = 1e3 * (time.perf_counter() - begin)
    process.stdout.read()
    if process.wait(timeout=limit_s) != 0 or not line.strip():
        raise Lost(f"ended with status {process.returncode}")
    return took


def measure_startup(entry, arguments):
    """torch.compile with a warm cache, eager, and ours; alternating. The first start of each fills its cache."""
    plain, cases = arguments.models / entry["file"], arguments.models / entry["cases_file"]
    commands = {}
    row = {"name": entry["name"], "times_ms": {}, "first_ms": {}, "absent": {}}
    for runtime in ("eager", "compile"):
        commands[runtime] = command_of(runtime, arguments) + ["--first-answer", str(plain), str(cases)]
    for runtime in ("ours_plain", "ours_balanced"):
        try:
            commands[runtime] = [str(arguments.build / "bin" / "kpt"), "bench", str(file_of(runtime, entry, arguments)),
                                 "--first-answer", "--device", arguments.device, "--set",
                                 f"cache.dir={arguments.out / 'kpt_cache'}"]
        except Lost as reason:
            row["absent"][runtime] = str(reason)
    environment = environment_of(arguments)
    for name, command in list(commands.items()):
        try:
            row["first_ms"][name] = first_answer_ms(command, environment, arguments.limit_s)
            row["times_ms"][name] = []
        except Lost as reason:
            row["absent"][name] = str(reason)
            del commands[name]
    for index in range(arguments.startup_runs):
        for name in list(commands) if index % 2 == 0 else list(commands)[::-1]:
            row["times_ms"][name].append(first_answer_ms(commands[name], environment, arguments.limit_s))
    return row


def export_models(arguments):
    """The full-size models of --dtype with fixed sizes, unless --models is given."""
    kind = {"float32": "fp32", "bfloat16": "bf16"}[arguments.dtype]
    patterns = [pattern if kind in pattern else f"{pattern}{kind}_static" for pattern in arguments.only]
    command = [sys.executable, str(SOURCE / "tests/models/export_models.py"), "--out", str(arguments.models), "--size",
               "full", "--reuse", "--only", *patterns]
    if subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}).returncode != 0:
        raise SystemExit("compare: the models could not be exported")


def choose_entries(arguments):
    entries = json.loads((arguments.models / "index.json").read_text())["models"]
    chosen = [entry for entry in entries if any(fnmatch.fnmatch(entry["name"], p) for p in arguments.only)
              and entry["dtype"] == arguments.dtype and not entry["dynamic"] and not entry["stateful_steps"]]
    if not chosen:
        raise SystemExit(f"compare: no model of {arguments.models} fits {arguments.only}")
    return chosen


def describe_machine(arguments):
    versions = {}
    for package in ("torch", "onnxruntime", "openvino", "transformers"):
        try:
            from importlib.metadata import version
            versions[package] = version(package)
        except Exception:
            versions[package] = None
    kpt = subprocess.run([str(arguments.build / "bin" / "kpt"), "--version"], capture_output=True, text=True)
    doctor = subprocess.run([str(arguments.build / "bin" / "kpt"), "doctor", "--json"], capture_output=True, text=True)
    cpu = next((line["message"] for line in json.loads(doctor.stdout or "{}").get("diagnostics", [])
                if line.get("category") == "cpu"), platform.processor() or platform.machine())
    return {"cpu": cpu, "machine": platform.machine(), "threads": arguments.threads, "versions": versions,
            "kpt": kpt.stdout.strip().splitlines(), "load_average": os.getloadavg()[0],
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "rounds": arguments.rounds}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="results, artifacts, ONNX files, logs")
    parser.add_argument("--models", type=Path, metavar="DIR", help="exported models (default: exported to OUT/models)")
    parser.add_argument("--build", type=Path, default=SOURCE / "build/cpu-release", metavar="DIR")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="names or patterns of models")
    parser.add_argument("--runtimes", nargs="+", default=None, choices=tuple(dict.fromkeys(PEERS + GPU_PEERS + OURS)),
                        metavar="NAME", help=f"of {', '.join(PEERS + OURS)}, on a GPU of {', '.join(GPU_PEERS + OURS)}; "
                                             "eager always takes part")
    parser.add_argument("--device", default="cpu", help="cpu or nvidia:N")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"), help="of the models")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--round-ms", type=float, default=500)
    parser.add_argument("--pause-ms", type=float, default=100)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--limit-s", type=int, default=1800, help="for one answer of a runtime")
    parser.add_argument("--startup", action="store_true", help="measure start-up instead")
    parser.add_argument("--startup-runs", type=int, default=7)
    arguments = parser.parse_args()
    arguments.out = arguments.out.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    arguments.build = arguments.build.resolve()
    arguments.torch_device = "cpu" if arguments.device == "cpu" else "cuda" + arguments.device.removeprefix("nvidia")
    if arguments.runtimes is None:
        arguments.runtimes = (PEERS if arguments.device == "cpu" else GPU_PEERS) + OURS
    arguments.runtimes = tuple(dict.fromkeys(("eager", *arguments.runtimes)))
    for program in ("kpt", "kpt_serve_models"):
        if not (arguments.build / "bin" / program).exists():
            parser.error(f"{arguments.build}/bin/{program} is missing; configure with -DKPT_BENCHMARKS=ON and build it")
    if arguments.models is None:
        arguments.models = arguments.out / "models"
        export_models(arguments)
    arguments.models = arguments.models.resolve()
    return arguments


def main():
    arguments = parse_arguments()
    results = {"machine": describe_machine(arguments), "models": []}
    measure = measure_startup if arguments.startup else measure_model
    name = "startup" if arguments.startup else "results"
    for entry in choose_entries(arguments):
        print(f"{entry['name']} …", file=sys.stderr, flush=True)
        try:
            results["models"].append(measure(entry, arguments))
        except Lost as reason:
            results["models"].append({"name": entry["name"], "failed": str(reason)})
        # After every model: a run of hours that is interrupted keeps what it has.
        (arguments.out / f"{name}.json").write_text(json.dumps(results, indent=1))
    make = compare_table.startup_table if arguments.startup else compare_table.full_table
    text, summary = make(results)
    results["summary"] = summary
    (arguments.out / f"{name}.json").write_text(json.dumps(results, indent=1))
    (arguments.out / f"{name}.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
