#!/usr/bin/env python3
"""Exports the models of the test set with random weights, and writes inputs and reference results beside them.

  export_models.py --out build/models                     all, small: what the tests use
  export_models.py --out build/models --only 'llama*'     some, by pattern
  export_models.py --out build/full --size full           sizes that benchmarks use (25 GB of disk)
  export_models.py --out build/rows --size full --only bert_bf16_static:32x128 vit_bf16_static:32
                                                          rows of compare.py: see benchmark_rows.py
  export_models.py --list

README.md beside this file describes what is written. Models that this version of PyTorch or transformers cannot export
are listed at the end with the reason. Ends with 1, naming them, when one is missing that ALLOWED_SKIPS does not hold.
"""

import argparse
import concurrent.futures
import copy
import fnmatch
import gc
import multiprocessing
import os
import secrets
import sys
import time
import traceback
import warnings
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import blas_setting  # noqa: E402, F401  before torch

import torch  # noqa: E402
import transformers

import benchmark_rows
import case_files
import model_list
import references

HERE = Path(__file__).resolve().parent
SCRIPTS = ["../../tools/decode_step.py", "benchmark_rows.py", "case_files.py", "export_models.py", "model_list.py",
           "own_modules.py", "references.py", "weight_values.py"]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
# Architectures that are also exported in decomposed form, and with gradients enabled (which leaves regions with
# gradients switched off in the graph).
DECOMPOSED = ("bert", "llama", "resnet50", "nested", "llama_decode")
WITH_GRADIENTS = ("llama",)
# Variants (patterns) that may be missing, with the beginning of the torch version and the reason. None is: PyTorch 2.11
# to 2.15 export all.
ALLOWED_SKIPS = ()


@dataclass(frozen=True)
class Variant:
    """One file: an architecture in a type, with fixed or varying extents, in one form of the graph."""

    model: str
    dtype: str
    dynamic: bool
    form: str = "training"  # inference: functional, operators kept; core: Core ATen
    gradients: bool = False
    shape: tuple = ()  # extents of a row of the benchmarks

    @property
    def name(self):
        parts = [self.model, self.dtype, "dynamic" if self.dynamic else "static"]
        parts += [self.form] if self.form != "training" else []
        parts += ["grad"] if self.gradients else []
        return "_".join(parts + (["x".join(map(str, self.shape))] if self.shape else []))


class Refused(Exception):
    """The exporter does not take the model, or changes what it computes."""


def list_variants(models, size):
    for model in models:
        for dtype in DTYPES:
            yield Variant(model.name, dtype, False)
            if model.attempts and (size == "small" or model.name in ("bert", "minilm")):
                yield Variant(model.name, dtype, True)
        if size == "small" and model.name in DECOMPOSED:
            for form in ("inference", "core"):
                yield Variant(model.name, "fp32", bool(model.attempts), form)
                if model.steps:
                    yield Variant(model.name, "fp32", False, form)
        if size == "small" and model.name in WITH_GRADIENTS:
            yield Variant(model.name, "fp32", False, gradients=True)


def choose_variants(variants, patterns):
    """Those that a pattern names, in the order of the list; `NAME:32x128` asks for a row of that shape."""
    variants = list(variants)
    plain = [pattern for pattern in patterns if ":" not in pattern]
    chosen = [variant for variant in variants if is_named(variant, plain)]
    for pattern in patterns:
        name, _, text = pattern.partition(":")
        if text:
            shape = benchmark_rows.parse_shape(text)
            chosen += [replace(variant, shape=shape) for variant in variants
                       if not variant.dynamic and is_named(variant, [name])]
    return list(dict.fromkeys(chosen))


def is_named(variant, patterns):
    return any(fnmatch.fnmatch(variant.name, pattern) or variant.model == pattern for pattern in patterns)


def make_dynamic_shapes(model, varying):
    dims = {name: torch.export.Dim(name, min=model.ranges[name][0], max=model.ranges[name][1]) for name in varying}

    def size(extent):
        if not isinstance(extent, tuple):
            return dims.get(extent)
        name, factor, offset = extent
        return factor * dims[name] + offset if offset else factor * dims[name]
    return {name: {axis: size(extent) for axis, extent in enumerate(extents) if size(extent) is not None}
            for name, extents in model.axes.items()}


def export(module, inputs, dynamic_shapes, variant, deferred=False):
    with torch.set_grad_enabled(variant.gradients):
        exported = torch.export.export(module, (), inputs, dynamic_shapes=dynamic_shapes, strict=False,
                                       prefer_deferred_runtime_asserts_over_guards=deferred)
    with torch.no_grad():
        if variant.form == "core":
            return exported.run_decompositions()
        return exported.run_decompositions({}) if variant.form == "inference" else exported


def export_with_attempts(model, module, inputs, variant):
    """The program, and for the index: what varies in it, whether checks were deferred, what was refused.

    Guards that PyTorch 2.11 cannot prove for all extents (min(16*s, 32*s) == 16*s) are left to checks at run time.
    """
    if not variant.dynamic:
        return export(module, inputs, None, variant), {"dynamic": [], "deferred_checks": False, "refused_dynamic": []}
    refusals = []
    for varying in model.attempts:
        reason = None
        for deferred in (False, True):
            try:
                exported = export(module, inputs, make_dynamic_shapes(model, varying), variant, deferred)
            except Exception as error:  # the exporter raises many kinds
                reason = reason or shorten(error)
                if "specialized" in str(error):  # the code made a number of it: deferring checks will not help
                    break
                continue
            return exported, {"dynamic": list(varying), "deferred_checks": deferred, "refused_dynamic": refusals}
        refusals.append(f"{'+'.join(varying)}: {reason}")
    raise Refused("; ".join(refusals))


def shorten(error):
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip()]
    first = lines[0].removesuffix('For more information, run with TORCH_LOGS="+dynamic".') if lines else ""
    return f"{type(error).__name__}: {' '.join([first.strip(), *lines[1:2]])[:260]}"


def draw_cases(model, variant, varying, seed, dtype):
    """The inputs of all cases: fixed extents several times, or all extents that the program says it takes."""
    generator = torch.Generator().manual_seed(seed)
    if not variant.dynamic:
        return [model.make_inputs(model.static, generator, dtype) for _ in range(model.draws)]
    shapes = []
    for case in model.cases:
        shape = {**model.static, **{name: case[name] for name in varying}}
        if shape not in shapes:
            shapes.append(shape)
    return [model.make_inputs(shape, generator, dtype) for shape in shapes]


def compute_cases(module, exported, all_inputs, dynamic):
    """(inputs, eager, fp64) of each case. The exported program must agree with eager, else the file tests nothing."""
    runnable = exported.module()
    results, refused = [], []
    for inputs in all_inputs:
        eager = case_files.flatten_outputs(references.run_eager(module, inputs))
        try:
            with torch.no_grad():
                results.append((inputs, eager, case_files.flatten_outputs(runnable(**inputs))))
        except Exception as error:
            if not dynamic:
                raise
            refused.append(f"{ {name: list(value.shape) for name, value in inputs.items()} }: {shorten(error)}")
    del runnable
    in_double = widen(module)
    cases = []
    for inputs, eager, result in results:
        fp64 = keep_floats(case_files.flatten_outputs(references.run_in_double(in_double, inputs)), eager)
        difference = references.find_disagreement(result, eager, fp64)
        if difference:
            raise Refused(f"the exported program computes something else: {difference}")
        cases.append((inputs, eager, fp64))
    return cases, refused


def widen(module):
    """The module in double: a copy where it is small, in place where memory would not hold two."""
    size = sum(tensor.nbytes for tensor in module.state_dict().values())
    return (copy.deepcopy(module) if size < 1 << 30 else module).double()


def keep_floats(named, like):
    return {name: value for name, value in named.items() if like[name].is_floating_point()}


def draw_steps(model, variant, generator, dtype):
    """The inputs of all steps, each behind the tokens of those before it, and where its first token stands."""
    position = 0
    for case in model.cases if variant.dynamic else [{"tokens": 1}] * model.steps:
        yield position, model.make_inputs({**model.static, **case, "position": position}, generator, dtype)
        position += case["tokens"]


def compute_steps(model, module, exported, variant, generator, dtype):
    """Steps of decoding: with the cache in eager, and all tokens at once without a cache, in the type and in double."""
    positions, inputs = zip(*draw_steps(model, variant, generator, dtype))
    cached = run_steps(module, inputs)
    replayed = run_steps(exported.module(), inputs)
    tokens = torch.cat([step["input_ids"] for step in inputs], dim=1)
    whole = references.run_eager(module.model, {"input_ids": tokens, "use_cache": False}).logits
    in_double = widen(module.model)
    fp64 = references.run_in_double(in_double, {"input_ids": tokens, "use_cache": False}).logits
    cases = []
    for step, (position, given, eager, result) in enumerate(zip(positions, inputs, cached, replayed)):
        own = slice(position, position + given["input_ids"].shape[1])
        groups = {"eager": {"output": eager}, "without_cache": {"output": whole[:, own]},
                  "fp64": {"output": fp64[:, own]}}
        difference = references.find_disagreement({"output": result}, groups["eager"], groups["fp64"]) or \
            references.find_disagreement({"output": eager}, groups["without_cache"], groups["fp64"])
        if difference:
            raise Refused(f"the exported program computes something else in step {step}: {difference}")
        cases.append((given, groups))
    return cases


@torch.no_grad()
def run_steps(module, inputs):
    """Runs from an empty cache: a module and its exported program share their buffers."""
    for name, buffer in module.named_buffers():
        if name.rsplit("_", 1)[0] in model_list.STATE:
            buffer.zero_()
    return [module(**step) for step in inputs]


def make_model(model, variant, seed, out):
    """Exports one variant; returns its entry of the index."""
    dtype = DTYPES[variant.dtype]
    module = model.build(dtype, model_list.weight_seed(model, seed))
    case_seed = zlib.crc32(variant.name.encode()) ^ seed
    traced = {**model.static, **(model.traced if variant.dynamic else {})}
    sample = model.make_inputs(traced, torch.Generator().manual_seed(case_seed + 1), dtype)
    exported, attempt = export_with_attempts(model, module, sample, variant)
    path = out / f"{variant.name}.pt2"
    torch.export.save(exported, path)
    entry = {**describe(variant, model, exported, attempt["dynamic"], sample), **attempt}
    writer = case_files.CaseWriter()
    if model.steps:
        generator = torch.Generator().manual_seed(case_seed)
        for given, groups in compute_steps(model, module, exported, variant, generator, dtype):
            writer.add(given, **groups)
    else:
        all_inputs = draw_cases(model, variant, attempt["dynamic"], case_seed, dtype)
        cases, entry["refused_cases"] = compute_cases(module, exported, all_inputs, variant.dynamic)
        for given, eager, fp64 in cases:
            writer.add(given, eager=eager, fp64=fp64)
    if writer.count < 2:
        raise Refused(f"fewer than two cases run: {entry['refused_cases']}")
    writer.write(out / entry["cases_file"])
    return {**entry, "cases": writer.count, "outputs": output_names(writer)}


def make_row(model, variant, seed, out):
    """One row of the benchmarks: the program, one case and what it gives in double; nothing that only tests need."""
    benchmark_rows.set_shape(model, variant.shape)
    dtype = DTYPES[variant.dtype]
    module = benchmark_rows.build(model, dtype, model_list.weight_seed(model, seed))
    generator = torch.Generator().manual_seed(zlib.crc32(variant.name.encode()) ^ seed)
    inputs = model.make_inputs(model.static, generator, dtype)
    benchmark_rows.fill_cache(module, generator)
    exported = export(module, inputs, None, variant)
    torch.export.save(exported, out / f"{variant.name}.pt2")
    entry = describe(variant, model, exported, [], inputs)
    del exported
    outputs = benchmark_rows.compute_fp64(module, inputs)
    writer = case_files.CaseWriter()
    writer.add(inputs, fp64={name: value for name, value in outputs.items() if value.is_floating_point()})
    writer.write(out / entry["cases_file"])
    return {**entry, "dynamic": [], "deferred_checks": False, "refused_dynamic": [], "shape": list(variant.shape),
            "cases": 1, "outputs": list(outputs)}


def output_names(writer):
    return [key.split("/", 2)[2] for key in writer.tensors if key.startswith("case0/eager/")]


def describe(variant, model, exported, varying, sample):
    inputs = [{"name": name, "dtype": case_files.dtype_name(value.dtype),
               "dims": case_files.describe_dims(exported, name)} for name, value in sample.items()]
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
                for tensor in exported.state_dict.values()}
    return {
        "name": variant.name, "architecture": variant.model, "file": f"{variant.name}.pt2",
        "cases_file": f"{variant.name}.cases.safetensors", "dtype": case_files.dtype_name(DTYPES[variant.dtype]),
        "tolerance": variant.dtype, "ranges": {name: list(model.ranges[name]) for name in varying},
        "form": variant.form, "gradients": variant.gradients,
        "stateful_steps": len(model.cases) if variant.dynamic and model.steps else model.steps,
        "real_weights": model.real_weights, "parameter_bytes": sum(storages.values()), "inputs": inputs,
        "nodes": len(exported.graph.nodes), "targets": case_files.count_targets(exported),
    }


def run_variant(variant, size, seed, key, out, threads):
    """One unit of work of the pool: makes the files, or an entry that says why not."""
    torch.set_num_threads(threads)
    warnings.simplefilter("ignore")  # of PyTorch and transformers about their own insides
    start = time.monotonic()
    stem = out / variant.name
    try:
        model = next(m for m in model_list.list_models(size) if m.name == variant.model)
        entry = (make_row if variant.shape else make_model)(model, variant, seed, out)
    except Exception as error:
        if os.environ.get("KPT_TRACE_EXPORT"):
            traceback.print_exc()
        for suffix in (".pt2", ".cases.safetensors"):
            Path(f"{stem}{suffix}").unlink(missing_ok=True)
        reason = str(error) if isinstance(error, (Refused, model_list.Unavailable)) else shorten(error)
        entry = {"name": variant.name, "skipped": reason}
    gc.collect()
    if variant.shape and torch.cuda.is_available():
        torch.cuda.empty_cache()
    entry = {**entry, "key": key, "seconds": round(time.monotonic() - start, 2)}
    case_files.write_json(Path(f"{stem}.json"), entry)
    return entry


def make_key(size, seed):
    scripts = case_files.hash_scripts(*(HERE / name for name in SCRIPTS))
    return f"{scripts} torch {torch.__version__} transformers {transformers.__version__} {size} seed {seed}"


def find_made(out, variant, key):
    """The entry of an earlier run, if it was made by the same scripts, versions and seed."""
    entry = case_files.read_json(out / f"{variant.name}.json")
    if not entry or entry.get("key") != key:
        return None
    if "skipped" not in entry and not ((out / entry["file"]).exists() and (out / entry["cases_file"]).exists()):
        return None
    return entry


def choose_seed(arguments, out):
    if arguments.seed is not None:
        return arguments.seed
    index = case_files.read_json(out / "index.json") if arguments.reuse else None
    if index and index.get("key") == make_key(arguments.size, index.get("seed")):
        return index["seed"]
    return secrets.randbelow(1 << 31)


def make_each(variants, arguments_of, jobs):
    """Yields the entries as they are made. Rows are made in this process: a forked one could not use the GPU."""
    for variant in variants:
        if variant.shape:
            yield run_variant(*arguments_of(variant))
    # The children inherit the imported packages, which take longer to import than most models to export.
    context = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        pending = [pool.submit(run_variant, *arguments_of(variant)) for variant in variants if not variant.shape]
        for future in concurrent.futures.as_completed(pending):
            yield future.result()


def export_all(variants, arguments, seed, out):
    key = make_key(arguments.size, seed)
    entries = [find_made(out, variant, key) for variant in variants]
    todo = [variant for variant, entry in zip(variants, entries) if entry is None]
    made = [entry for entry in entries if entry is not None]
    print(f"{len(variants)} variants, {len(made)} of them made already, seed {seed}", flush=True)
    threads = max(1, os.cpu_count() // arguments.jobs)
    for entry in make_each(todo, lambda variant: (variant, arguments.size, seed, key, out, threads), arguments.jobs):
        made.append(entry)
        state = f"skipped: {entry['skipped']}" if "skipped" in entry else f"{entry['cases']} cases"
        print(f"{entry['seconds']:7.1f} s  {entry['name']}: {state}", flush=True)
    return key, made


def write_index(out, arguments, seed, key, entries):
    """Entries of earlier runs into the same folder stay when they were made alike."""
    known = {entry["name"]: entry for entry in entries}
    for path in out.glob("*.json"):
        entry = case_files.read_json(path)
        if path.name != "index.json" and entry and entry.get("key") == key:
            known.setdefault(entry["name"], entry)
    ordered = sorted(known.values(), key=lambda entry: entry["name"])
    index = {"format": case_files.FORMAT, "key": key, "seed": seed, "size": arguments.size,
             "torch": torch.__version__, "transformers": transformers.__version__,
             "models": [entry for entry in ordered if "skipped" not in entry],
             "skipped": [{"name": entry["name"], "reason": entry["skipped"]}
                         for entry in ordered if "skipped" in entry]}
    case_files.write_json(out / "index.json", index)
    return index


def find_unexpected(index, names, allowed):
    """Those of `names` that were skipped without being allowed to."""
    patterns = [*allowed, *(name for name, version, _ in ALLOWED_SKIPS if index["torch"].startswith(version))]
    return [entry["name"] for entry in index["skipped"]
            if entry["name"] in names and not any(fnmatch.fnmatch(entry["name"], pattern) for pattern in patterns)]


def print_exceptions(index):
    for entry in index["skipped"]:
        print(f"skipped  {entry['name']}: {entry['reason']}")
    deferred = [entry["name"] for entry in index["models"] if entry["deferred_checks"]]
    if deferred:
        print(f"exported with checks deferred to run time: {', '.join(deferred)}")
    for entry in index["models"]:
        for refusal in entry["refused_dynamic"]:
            print(f"narrowed {entry['name']} to {'+'.join(entry['dynamic'])}; refused was {refusal}")
        for refusal in entry.get("refused_cases", []):
            print(f"left out {entry['name']}: {refusal}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the files")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME",
                        help="names or patterns, as --list prints; NAME:32x128 for a row of the benchmarks")
    parser.add_argument("--size", choices=("small", "full"), default="small")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--jobs", type=int, help="processes (default: 2 for small, 1 for full)")
    parser.add_argument("--seed", type=int, help="of weights and inputs (default: random, printed)")
    parser.add_argument("--allow-skip", nargs="+", default=[], metavar="NAME",
                        help="names or patterns of models that may be missing: minilm* where its package is not there")
    parser.add_argument("--reuse", action="store_true",
                        help="keep the seed of DIR, so that nothing is made again while scripts and versions stay")
    arguments = parser.parse_args()
    arguments.jobs = arguments.jobs or (1 if arguments.size == "full" else 2)
    if not arguments.list and arguments.out is None:
        parser.error("--out is missing")
    return arguments


def main():
    arguments = parse_arguments()
    models = model_list.list_models(arguments.size)
    try:
        variants = choose_variants(list_variants(models, arguments.size), arguments.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.list:
        print("\n".join(variant.name for variant in variants))
        return 0
    if not variants:
        print(f"no model is named {' '.join(arguments.only)}; see --list", file=sys.stderr)
        return 2
    arguments.out.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    seed = choose_seed(arguments, arguments.out)
    key, entries = export_all(variants, arguments, seed, arguments.out)
    index = write_index(arguments.out, arguments, seed, key, entries)
    print_exceptions(index)
    size = sum(path.stat().st_size for path in arguments.out.iterdir()) / 1e6
    print(f"{len(index['models'])} models, {len(index['skipped'])} skipped, {size:.0f} MB, "
          f"{time.monotonic() - start:.0f} s, seed {seed}, torch {torch.__version__}, "
          f"transformers {transformers.__version__}")
    unexpected = find_unexpected(index, {variant.name for variant in variants}, arguments.allow_skip)
    if unexpected:
        print(f"not exported, and not allowed to be missing: {', '.join(unexpected)}", file=sys.stderr)
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
