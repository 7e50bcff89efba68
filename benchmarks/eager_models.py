#!/usr/bin/env python3
"""Measures PyTorch itself on exported models, one JSON line per model.

  eager_models.py --models build/models --only 'bert*' --threads 2 --repeats 20
  eager_models.py --serve --threads 2

Each line has the time of loading, the growth of anonymous memory, and the time of every repeat in milliseconds, for the
inputs of the model's first case. --serve answers commands on standard input, a JSON line each, so that a driver can
alternate between this process and another one in one run:

  load FILE [CASES_FILE] [CASE]   torch.export.load(FILE).module(); inputs from the safetensors file (default: beside
                                  FILE, case 0)
  build DIR NAME                  the nn.Module that NAME of DIR was exported from, with the same weights
  run N [STEPS]                   {"times_ms": […]} of N runs; with STEPS, the module's buffers go back to what they
                                  held when it was made before the first run and after each STEPS runs, not timed
  memory                          {"anonymous_bytes": …} of this process
  quit
"""

import argparse
import fnmatch
import gc
import json
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "tools"), str(ROOT / "tests/models")]
import blas_setting  # noqa: E402, F401  before torch

import torch  # noqa: E402
from safetensors.torch import load_file

from chosen_models import count_steps


def read_anonymous_bytes():
    """RssAnon of this process; None where the system does not say."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def import_output_classes():
    """Programs of Hugging Face models return their dataclasses, which must be registered before loading."""
    try:
        import transformers.models.clip.modeling_clip  # noqa: F401
        import transformers.modeling_outputs  # noqa: F401
    except ImportError:
        pass


class LoadedModel:
    """A module ready to run on the inputs of one case; `load` makes it."""

    def __init__(self, load, inputs):
        self.inputs = inputs
        gc.collect()
        before, start = read_anonymous_bytes(), time.perf_counter()
        self.module = load()
        self.load_seconds = time.perf_counter() - start
        after = read_anonymous_bytes()
        self.anonymous_bytes = after - before if after is not None and before is not None else None
        self.first_state = {name: buffer.clone() for name, buffer in self.module.named_buffers()}

    def describe(self):
        weights = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
                   for tensor in (*self.module.parameters(), *self.module.buffers())}
        return {"load_seconds": round(self.load_seconds, 4), "anonymous_bytes": self.anonymous_bytes,
                "weight_bytes": sum(weights.values())}

    def reset(self):
        for name, buffer in self.module.named_buffers():
            buffer.copy_(self.first_state[name])

    def run(self, count, steps=None):
        """Milliseconds of each run. A model with state begins anew after each `steps` runs."""
        times = []
        with torch.inference_mode():
            for index in range(count):
                if steps and index % steps == 0:
                    self.reset()
                start = time.perf_counter_ns()
                self.module(**self.inputs)
                times.append((time.perf_counter_ns() - start) / 1e6)
        return times


def load_program(path, cases_file=None, case=0):
    inputs = read_inputs(cases_file or path.with_suffix(".cases.safetensors"), case)
    return LoadedModel(lambda: torch.export.load(path).module(), inputs)


def build_module(folder, name):
    """The module as export_models.py built it. Its answer must be the recorded one, else it is another model."""
    import case_files
    import model_list
    import references
    index = json.loads((folder / "index.json").read_text())
    entry = next((entry for entry in index["models"] if entry["name"] == name), None)
    if entry is None:
        raise ValueError(f"{folder} has no model {name}")
    model = next(m for m in model_list.list_models(index["size"]) if m.name == entry["architecture"])
    dtype = getattr(torch, entry["dtype"])
    tensors = load_file(folder / entry["cases_file"])
    built = LoadedModel(lambda: model.build(dtype, model_list.weight_seed(model, index["seed"])),
                        select(tensors, "case0/input/"))
    answer = case_files.flatten_outputs(references.run_eager(built.module, built.inputs))
    difference = references.find_disagreement(answer, select(tensors, "case0/eager/"), select(tensors, "case0/fp64/"))
    if difference:
        raise ValueError(f"the module built for {name} is not the exported one: {difference}")
    return built


def select(tensors, prefix):
    return {key[len(prefix):]: value for key, value in tensors.items() if key.startswith(prefix)}


def read_inputs(path, case):
    inputs = select(load_file(path), f"case{case}/input/")
    if not inputs:
        raise ValueError(f"{path} holds no inputs of case {case}")
    return inputs


def summarize(times):
    quarters = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return {"median_ms": round(statistics.median(times), 4), "least_ms": round(min(times), 4),
            "quartiles_ms": [round(quarters[0], 4), round(quarters[2], 4)], "times_ms": [round(t, 4) for t in times]}


def measure_all(arguments):
    index = json.loads((arguments.models / "index.json").read_text())
    chosen = [entry for entry in index["models"]
              if any(fnmatch.fnmatch(entry["name"], pattern) for pattern in arguments.only)]
    for entry in chosen:
        # A process for each model: memory that one leaves behind would count for the next.
        child = os.fork()
        if child == 0:
            measure_one(arguments, entry)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status != 0:
            print(json.dumps({"name": entry["name"], "error": f"ended with status {status}"}), flush=True)
    return 0 if chosen else 2


def measure_one(arguments, entry):
    torch.set_num_threads(arguments.threads)
    model = load_program(arguments.models / entry["file"], arguments.models / entry["cases_file"])
    steps = count_steps(entry)
    model.run(arguments.warm_up, steps)
    times = model.run(arguments.repeats, steps)
    print(json.dumps({"name": entry["name"], "threads": arguments.threads, "torch": torch.__version__,
                      **model.describe(), **summarize(times)}))


class ModelServer:
    """Obeys commands; holds one model."""

    def __init__(self):
        self.model = None

    def obey(self, words):
        if words[:1] == ["load"] and 2 <= len(words) <= 4:
            self.model = None  # memory would not hold two large ones
            cases = Path(words[2]) if len(words) > 2 else None
            self.model = load_program(Path(words[1]), cases, int(words[3]) if len(words) > 3 else 0)
            return {"loaded": words[1], **self.model.describe()}
        if words[:1] == ["build"] and len(words) == 3:
            self.model = None
            self.model = build_module(Path(words[1]), words[2])
            return {"built": words[2], **self.model.describe()}
        if words[:1] == ["run"] and len(words) in (2, 3) and self.model is not None:
            return {"times_ms": self.model.run(*map(int, words[1:]))}
        if words == ["memory"]:
            gc.collect()
            return {"anonymous_bytes": read_anonymous_bytes()}
        raise ValueError("expected: load FILE [CASES_FILE] [CASE], build DIR NAME, run N [STEPS] (after these), memory or "
                         "quit")


def serve(arguments):
    torch.set_num_threads(arguments.threads)
    server = ModelServer()
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["quit"]:
            break
        try:
            answer = server.obey(words)
        except Exception as error:  # the driver must get an answer, whatever went wrong
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
    return 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, metavar="DIR", help="folder that tests/models/export_models.py wrote")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="names or patterns")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--serve", action="store_true", help="obey commands on standard input")
    parser.add_argument("--plain", action="store_true",
                        help="without transformers, whose classes only programs of its models need: starts sooner")
    arguments = parser.parse_args()
    if not arguments.serve and arguments.models is None:
        parser.error("give --models or --serve")
    return arguments


def main():
    arguments = parse_arguments()
    if not arguments.plain:
        import_output_classes()
    return serve(arguments) if arguments.serve else measure_all(arguments)


if __name__ == "__main__":
    sys.exit(main())
