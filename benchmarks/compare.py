#!/usr/bin/env python3
"""Ours beside PyTorch, ONNX Runtime and OpenVINO: same weights, inputs and threads, outputs checked against fp64.

  docs/how_to/benchmark_a_model.md                                                 how to build kpt and kpt_serve_models
  $(tools/setup_peers.sh) benchmarks/compare.py --out build/compare                everything: exports, optimizes, measures
  $(tools/setup_peers.sh) benchmarks/compare.py --out build/compare --only 'minilm*' --rounds 9
  $(tools/setup_peers.sh) benchmarks/compare.py --out build/compare --startup      start-up alone
  python3 benchmarks/compare.py --out build/compare --device nvidia:0 --dtype bfloat16 --build build/cuda-release
                                                                                   on a GPU; --rows gpu for its rows

Each runtime is a process of its own. All processes of a model stay up and take turns, in alternating order; a round
gives one median for each, and ratios are taken within rounds, so that a change of the machine's speed meets both sides.
Where memory does not hold all at once, each runtime takes turns with eager alone. Writes results.md and results.json to
--out, after every model. Needs a quiet machine: nothing else should run.

A row is a full-size model with a shape, bert:32x128: one case, whose fp64 reference is computed on the GPU where there is
one. Language models give the logits of the last place alone. llama_decode is one token behind a full cache of keys and
values; the cache stays from run to run on all sides, the place is an input and the same in every run.
"""

import argparse
import fnmatch
import hashlib
import json
import math
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import compare_rows
import compare_table
import earlier_peers
import machine_description
from chosen_models import read_index
from runtime_process import Lost, Server, first_answer_ms, run_bounded

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent
LEVELS = ("conservative", "balanced", "aggressive")
PEERS = ("eager", "compile", "compile_best", "onnxruntime", "openvino", "onnxruntime_int8")
GPU_PEERS = ("eager", "compile", "compile_graphs", "compile_best", "aoti")
STARTUP_PEERS = ("eager", "compile", "compile_graphs", "aoti")
COMPILED = ("compile", "compile_graphs", "aoti")
TUNING = ("compile_best",)  # measures while it compiles: nothing else may run then
OURS = ("ours_plain",) + tuple(f"ours_{level}" for level in LEVELS)


def environment_of(arguments):
    threads = str(arguments.threads)
    return {**os.environ, "OMP_NUM_THREADS": threads, "KPT_THREADS": threads, "MKL_NUM_THREADS": threads,
            "TORCHINDUCTOR_CACHE_DIR": str(arguments.out / "inductor")}


def command_of(runtime, arguments):
    if runtime in OURS:
        return [str(arguments.build / "bin" / "kpt_serve_models"), arguments.device]
    return [sys.executable, str(HERE / "peer_models.py"), "--runtime", runtime, "--threads", str(arguments.threads),
            "--work", str(arguments.out / "onnx"), "--device", arguments.torch_device]


def artifact_name(name, level, plain, device, optimize):
    """Differs where the device, the arguments of kpt optimize or the plain file do."""
    facts = plain.stat()
    made_from = json.dumps([device, optimize.split(), facts.st_size, facts.st_mtime_ns])
    return f"{name}.{level}.{hashlib.sha256(made_from.encode()).hexdigest()[:12]}.kpt"


def file_of(runtime, entry, arguments):
    """The file that a runtime loads; levels of ours are made here, once."""
    plain = arguments.models / entry["file"]
    if not runtime.startswith("ours_") or runtime == "ours_plain":
        return plain
    level = runtime.removeprefix("ours_")
    target = arguments.out / "artifacts" / artifact_name(entry["name"], level, plain, arguments.device,
                                                         arguments.optimize)
    if target.exists() and target.stat().st_mtime > (arguments.build / "bin" / "kpt").stat().st_mtime:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    done = run_bounded([str(arguments.build / "bin" / "kpt"), "optimize", str(plain), "--level", level, "--device",
                        arguments.device, "-o", str(target), *arguments.optimize.split()],
                       environment_of(arguments), arguments.limit_s)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()
        word = "refused by the gate" if done.returncode == 3 else f"kpt optimize ended with {done.returncode}"
        raise Lost(f"{word}: {lines[-1]}")
    return target


def begin(runtime, path, entry, arguments):
    """A server that loads the model."""
    logs = arguments.out / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    server = Server(command_of(runtime, arguments), environment_of(arguments), logs / f"{entry['name']}.{runtime}.txt",
                    arguments.limit_s)
    server.send(f"load {path} {arguments.models / entry['cases_file']}")
    return server


def finish(server, arguments, row, runtime):
    """Waits until the model is loaded and warm, and notes what that took."""
    answer = server.receive()
    server.ask("run 1")
    row["first_answer_s"][runtime] = time.monotonic() - server.started
    row["load_s"][runtime] = answer["load_seconds"]
    if "package_load_seconds" in answer:
        row["package"] = {key: answer[key] for key in ("compiled", "package_load_seconds")}
    server.ask(f"run {arguments.warmup}")


class Starting:
    """Servers of one row by name. What is lost on the way is stopped, and the row says why."""

    def __init__(self, entry, arguments, row):
        self.entry, self.arguments, self.row = entry, arguments, row
        self.servers = {}

    def attempt(self, runtime, action):
        try:
            return action()
        except Lost as reason:
            self.row["absent"][runtime] = str(reason)
            if runtime in self.servers:
                self.servers.pop(runtime).stop()
            return None

    def start_all(self, runtimes):
        """With --start-together they load at the same time, those that tune apart."""
        entry, arguments = self.entry, self.arguments
        files = {name: self.attempt(name, lambda: file_of(name, entry, arguments)) for name in runtimes}
        ready = [name for name in runtimes if files[name] is not None]
        together = [name for name in ready if arguments.start_together and name not in TUNING]
        for group in [together, *([name] for name in ready if name not in together)]:
            for name in group:
                self.servers[name] = begin(name, files[name], entry, arguments)
            with ThreadPoolExecutor(max(1, len(group))) as pool:  # no one's first answer waits for another's
                list(pool.map(lambda name: self.attempt(
                    name, lambda: finish(self.servers[name], arguments, self.row, name)), group))
        self.servers = {name: self.servers[name] for name in runtimes if name in self.servers}

    def check_all(self):
        for name in list(self.servers):
            found = self.attempt(name, lambda: check_outputs(self.servers[name], self.entry, self.arguments, name))
            if found is not None:
                self.row["checks"][name] = found

    def require_eager(self):
        if "eager" not in self.servers:
            raise Lost("eager itself does not run: " + self.row["absent"].get("eager", "no word"))

    def stop_all(self):
        for server in self.servers.values():
            server.stop()


def check_outputs(server, entry, arguments, runtime):
    from safetensors.torch import load_file
    file = arguments.out / "outputs.safetensors"
    server.ask(f"outputs {file}")
    given = load_file(file)
    file.unlink()
    return compare_outputs(given, load_file(arguments.models / entry["cases_file"]), entry["outputs"])


def compare_outputs(given, cases, names):
    """Worst relative error and least cosine against fp64 over the floating-point outputs.

    `given` holds tensors by position, `cases` those of the file of cases; Lost where they do not allow a judgement. As in
    the gate, positions that an attention_mask drops are padding that nobody reads and are not judged.
    """
    import numpy
    if len(given) != len(names):
        raise Lost(f"gives {len(given)} outputs, the model has {len(names)}")
    mask = cases.get("case0/input/attention_mask")
    worst, cosine, compared = 0.0, 1.0, 0
    for index, name in enumerate(names):
        reference = cases.get(f"case0/fp64/{name}")
        if reference is None:
            continue
        shape = reference.shape
        ours = given[str(index)].double().numpy().reshape(-1)
        reference = reference.double().numpy().reshape(-1)
        if ours.shape != reference.shape or not numpy.isfinite(ours).all():
            raise Lost(f"output {name} has another size or is not finite")
        if not numpy.isfinite(reference).all():
            raise Lost(f"the fp64 reference of output {name} is not finite")
        if mask is not None and shape[:2] == mask.shape:
            kept = mask.bool().numpy().reshape(-1)
            ours, reference = (values.reshape(kept.size, -1)[kept].reshape(-1) for values in (ours, reference))
        scale = math.sqrt(float((reference ** 2).mean())) or 1.0
        worst = max(worst, math.sqrt(float(((ours - reference) ** 2).mean())) / scale)
        product = float(numpy.linalg.norm(ours) * numpy.linalg.norm(reference))
        cosine = min(cosine, float(ours @ reference) / product if product else 1.0)
        compared += 1
    if compared == 0:
        raise Lost("no output has an fp64 reference")
    return {"error": worst, "cosine": cosine}


def take_turn(server, count):
    server.ask("run 1")
    return statistics.median(server.ask(f"run {count}")["times_ms"])


def take_turns(starting, arguments):
    """One median for each runtime and round; the order turns round every time. Who is lost on the way gets no times."""
    counts, times = {}, {}
    names = list(starting.servers)
    for name in names:
        ms = starting.attempt(name, lambda: starting.servers[name].ask("run 1")["times_ms"][0])
        if ms is not None:
            counts[name], times[name] = max(1, min(200, int(arguments.round_ms / max(ms, 1e-3)))), []
    for index in range(arguments.rounds):
        starting.require_eager()
        order = names[index % len(names):] + names[:index % len(names)]
        for name in order if index % 2 == 0 else order[::-1]:
            if name in starting.servers:
                time.sleep(arguments.pause_ms / 1e3)  # idle threads of the one before stop spinning
                times[name].append(starting.attempt(name, lambda: take_turn(starting.servers[name], counts[name])))
    starting.require_eager()
    return {name: times[name] for name in starting.servers}


def available_bytes():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def measure_group(runtimes, entry, arguments, row):
    starting = Starting(entry, arguments, row)
    try:
        starting.start_all(runtimes)
        starting.check_all()
        starting.require_eager()
        return take_turns(starting, arguments)
    finally:
        starting.stop_all()


def batch_of(entry):
    """First extent of the first input; None where it is not known."""
    return entry["inputs"][0]["dims"][0] if "inputs" in entry else entry.get("batch")


def prepare(entries, arguments):
    """Lets the compilers of several models fill their caches at the same time; those that tune are left out."""
    noted = {entry["name"]: {} for entry in entries}
    wanted = [(entry, name) for entry in entries for name in arguments.runtimes if name in COMPILED]
    size = arguments.prepare * max(1, len([name for name in arguments.runtimes if name in COMPILED]))
    for at in range(0, len(wanted), size):
        servers = [(entry, name, begin(name, arguments.models / entry["file"], entry, arguments))
                   for entry, name in wanted[at:at + size]]
        for entry, name, server in servers:
            try:
                noted[entry["name"]][name] = server.receive()["load_seconds"]
            except Lost as reason:
                noted[entry["name"]][name] = str(reason)
            server.stop()
            print(f"{entry['name']} {name}: {noted[entry['name']][name]}", file=sys.stderr, flush=True)
        (arguments.out / "prepared.json").write_text(json.dumps(noted, indent=1))


def measure_model(entry, arguments):
    row = {"name": entry["name"], "architecture": entry["architecture"], "dtype": entry["dtype"],
           "weight_bytes": entry["parameter_bytes"],
           "batch": batch_of(entry), "checks": {}, "load_s": {}, "first_answer_s": {}, "absent": {}, "rounds": []}
    runtimes = arguments.runtimes
    if arguments.earlier:
        runtimes = earlier_peers.take(arguments.earlier, str(arguments.peers_from), row, runtimes, OURS)
    need = (2 * len(runtimes) * entry["parameter_bytes"]) + (len(runtimes) * 600e6)
    if need < 0.8 * available_bytes():
        row["rounds"].append(measure_group(runtimes, entry, arguments, row))
    else:
        for runtime in runtimes:
            if runtime != "eager":
                row["rounds"].append(measure_group(("eager", runtime), entry, arguments, row))
    row["gpu"] = machine_description.read_gpu(arguments.device)
    return row


def measure_startup(entry, arguments):
    """Peers with warm caches, and ours; alternating. The first start of each fills its cache."""
    plain, cases = arguments.models / entry["file"], arguments.models / entry["cases_file"]
    commands = {}
    row = {"name": entry["name"], "times_ms": {}, "first_ms": {}, "absent": {}}
    peers = [name for name in STARTUP_PEERS if name in arguments.runtimes or name in ("eager", "compile")]
    for runtime in peers:
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
            try:
                row["times_ms"][name].append(first_answer_ms(commands[name], environment, arguments.limit_s))
            except Lost as reason:
                row["absent"][name] = f"start {index + 2}: {reason}"
                del commands[name], row["times_ms"][name]
    return row


def patterns_of(arguments):
    return [compare_rows.static_pattern(pattern, arguments.dtype) for pattern in arguments.only]


def export_models(arguments):
    """The full-size models of --dtype with fixed sizes, unless --models is given."""
    patterns = patterns_of(arguments)
    if arguments.rows:
        patterns = [compare_rows.export_pattern(row, arguments.dtype) for row in arguments.rows]
    command = [sys.executable, str(SOURCE / "tests/models/export_models.py"), "--out", str(arguments.models), "--size",
               "full", "--reuse", "--only", *patterns]
    environment = {**os.environ, "OMP_NUM_THREADS": str(arguments.threads)}
    try:
        count = len(arguments.rows) or len(run_bounded([*command, "--list"], environment,
                                                       arguments.limit_s).stdout.splitlines())
        done = run_bounded(command, environment, arguments.limit_s * max(1, count), shown=True)
    except Lost as reason:
        raise SystemExit(f"compare: {reason}") from None
    if done.returncode != 0 and not arguments.rows:  # rows that are there are measured
        raise SystemExit("compare: the models could not be exported")


def choose_entries(arguments):
    entries = read_index(arguments.models)["models"]
    if arguments.rows:
        known = {entry["name"]: entry for entry in entries}
        names = {compare_rows.entry_name(row, arguments.dtype): row for row in arguments.rows}
        return [known.get(name, {"name": name, "batch": compare_rows.batch_of(row)}) for name, row in names.items()]
    patterns = [*arguments.only, *patterns_of(arguments)]
    chosen = [entry for entry in entries if any(fnmatch.fnmatch(entry["name"], p) for p in patterns)
              and entry["dtype"] == arguments.dtype and not entry["dynamic"] and not entry["stateful_steps"]
              and not entry.get("shape")]
    if not chosen:
        raise SystemExit(f"compare: no model of {arguments.models} fits {arguments.only}")
    return chosen


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="results, artifacts, ONNX files, logs")
    parser.add_argument("--models", type=Path, metavar="DIR", help="exported models (default: exported to OUT/models)")
    parser.add_argument("--build", type=Path, default=SOURCE / "build/cpu-release", metavar="DIR")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="names or patterns of models")
    parser.add_argument("--rows", nargs="+", default=None, metavar="ROW",
                        help="models with a shape instead, as bert:32x128 or vit:1 (batch, batch x sequence; of "
                             "llama_decode sequences x places in the cache), or gpu for " + " ".join(compare_rows.GPU_ROWS))
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
    parser.add_argument("--limit-s", type=int, default=1800,
                        help="for one answer of a runtime, for kpt optimize, and for the export of a model")
    parser.add_argument("--optimize", default="", metavar="'ARGUMENTS'", help="for kpt optimize, as '--draws 1'")
    parser.add_argument("--start-together", action="store_true",
                        help="runtimes of a row load at the same time, compile_best apart: quicker, but the times of "
                             "loading are then those of a busy machine")
    parser.add_argument("--peers-from", type=Path, metavar="RESULTS.JSON",
                        help="take the peers' figures of an earlier run on the same GPU, driver and versions of torch, triton "
                             "and transformers; eager and ours are measured")
    parser.add_argument("--prepare", type=int, default=0, metavar="N",
                        help="compile for the peers first, N models at the same time, compile_best left out; seconds go "
                             "to OUT/prepared.json")
    parser.add_argument("--export-only", action="store_true", help="export the models and stop")
    parser.add_argument("--startup", action="store_true", help="measure start-up instead")
    parser.add_argument("--startup-runs", type=int, default=7)
    arguments = parser.parse_args()
    if arguments.rounds < compare_table.LEAST_ROUNDS:
        parser.error(f"--rounds must be at least {compare_table.LEAST_ROUNDS}: fewer give no interval of 95 %")
    arguments.out = arguments.out.resolve()
    arguments.out.mkdir(parents=True, exist_ok=True)
    arguments.build = arguments.build.resolve()
    arguments.torch_device = "cpu" if arguments.device == "cpu" else "cuda" + arguments.device.removeprefix("nvidia")
    if arguments.runtimes is None:
        arguments.runtimes = (PEERS if arguments.device == "cpu" else GPU_PEERS) + OURS
    arguments.runtimes = tuple(dict.fromkeys(("eager", *arguments.runtimes)))
    try:
        arguments.rows = compare_rows.expand_rows(arguments.rows or ())
    except ValueError as error:
        parser.error(str(error))
    for program in ("kpt", "kpt_serve_models"):
        if not arguments.export_only and not (arguments.build / "bin" / program).exists():
            parser.error(f"{arguments.build}/bin/{program} is missing; configure with -DKPT_BENCHMARKS=ON and build it")
    if arguments.models is None:
        arguments.models = arguments.out / "models"
        export_models(arguments)
    arguments.models = arguments.models.resolve()
    return arguments


def write_results(results, arguments):
    """After every model: a run of hours that is interrupted keeps what it has."""
    name = "startup" if arguments.startup else "results"
    make = compare_table.startup_table if arguments.startup else compare_table.full_table
    text, results["summary"] = make(results)
    (arguments.out / f"{name}.json").write_text(json.dumps(results, indent=1))
    (arguments.out / f"{name}.md").write_text(text)
    return text


def main():
    arguments = parse_arguments()
    if arguments.export_only:
        return 0
    results = {"machine": machine_description.describe(arguments), "models": []}
    arguments.earlier = None
    if arguments.peers_from:
        arguments.earlier = json.loads(arguments.peers_from.read_text())
        differences = earlier_peers.find_differences(arguments.earlier["machine"], results["machine"])
        if differences:
            raise SystemExit(f"compare: {arguments.peers_from} cannot be used: {'; '.join(differences)}")
    measure = measure_startup if arguments.startup else measure_model
    text = ""
    entries = choose_entries(arguments)
    if arguments.prepare > 0:
        prepare([entry for entry in entries if "file" in entry], arguments)
    for entry in entries:
        print(f"{entry['name']} …", file=sys.stderr, flush=True)
        try:
            if "file" not in entry:
                raise Lost(f"{arguments.models} does not hold it: it was not exported")
            results["models"].append(measure(entry, arguments))
        except Lost as reason:
            results["models"].append({"name": entry["name"], "batch": batch_of(entry), "failed": str(reason)})
        text = write_results(results, arguments)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
