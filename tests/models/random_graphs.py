#!/usr/bin/env python3
"""Draws random graphs, exports them, and writes inputs and reference results: the differential test's material.

  random_graphs.py --out build/graphs --count 2000 --seed 7

Many small independent graphs go into one exported module (its outputs are named g<graph>_<k>), since an export costs
far more than a graph. Every third module has an extent that varies. README.md describes the files.

--complete is for a run that must show something: it ends with 1 when fewer graphs are left than asked for, or when one
of the operators that the engine has code for was never drawn, after a few further modules.
"""

import argparse
import concurrent.futures
import io
import logging
import multiprocessing
import secrets
import sys
import time
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import blas_setting  # noqa: E402, F401  before torch

import torch  # noqa: E402

import case_files
import operator_table
import random_shape_ops
from graph_drawing import GraphModule, draw_graph, draw_inputs
from random_ops import OPS
from references import agrees

HERE = Path(__file__).resolve().parent
SCRIPTS = ["case_files.py", "graph_drawing.py", "random_graphs.py", "random_ops.py", "random_shape_ops.py",
           "references.py"]
# Fewer where an extent varies: the exporter refuses 3 % of those graphs, and finding the culprits costs exports.
GRAPHS_PER_MODULE = {False: 64, True: 24}
EXTENTS = {False: [None, None], True: [4, 9, 2]}  # of the varying dimension, for each case; the first is exported
LEAST_EXTENT = 2  # the exporter gives up on many graphs that would also have to work for 1
FURTHER_MODULES = 12
# Operators of the engine's tables that no random graph holds, and what runs them. Beside these: arithmetic on sizes that
# this PyTorch does not save (number_test.cpp).
NOT_DRAWN = {"aten._scaled_mm.default": "scaled_product_test.cpp; of FP8",
             "higher_order.cond": "golden files", "higher_order.while_loop": "golden files",
             "_operator.pos": "number_test.cpp; the exporter leaves it out",
             "torch.sym_int": "number_test.cpp; the exporter writes math.trunc"}


def export(module, inputs, dynamic):
    """The program, and the bytes of its file: some programs cannot be saved."""
    shapes = None
    if dynamic:
        extent = torch.export.Dim("n", min=LEAST_EXTENT, max=64)
        shapes = {name: {value.varying: extent} if value.varying is not None else None
                  for name, value in inputs.items()}
    sample = {name: value.tensors[0] for name, value in inputs.items()}
    with torch.no_grad():
        exported = torch.export.export(module, (), sample, dynamic_shapes=shapes, strict=False,
                                       prefer_deferred_runtime_asserts_over_guards=dynamic)
    file = io.BytesIO()
    torch.export.save(exported, file)
    return exported, file.getvalue()


def export_fitting(graphs, inputs, dynamic):
    """A module of the graphs that can serve, its exported program and file, and the others with the reason."""
    module = GraphModule(graphs)
    made, unfit = try_export(module, inputs, dynamic)
    if unfit:
        dropped = {graph.name for graph, _ in unfit}
        module = GraphModule([graph for graph in graphs if graph.name not in dropped])
        made = export(module, inputs, dynamic)
    return module, *made, unfit


def try_export(module, inputs, dynamic):
    """What export() gives and the graphs for which it is wrong; where it refuses, the culprits found by halving."""
    try:
        made = export(module, inputs, dynamic)
        wrong = wrong_graphs(module, made[0], inputs, dynamic)
        return made, [(graph, "the exported program computes something else") for graph in wrong]
    except Exception as error:  # the exporter raises many kinds
        if len(module.graphs) == 1:
            return None, [(module.graphs[0], f"{type(error).__name__}: {str(error).splitlines()[0][:160]}")]
    half = len(module.graphs) // 2
    parts = (module.graphs[:half], module.graphs[half:])
    return None, [unfit for part in parts for unfit in try_export(GraphModule(part), inputs, dynamic)[1]]


def wrong_graphs(module, exported, inputs, dynamic):
    """Graphs for which the exported program gives other results than eager: nothing to learn from them."""
    runnable = exported.module()
    wrong = {}
    for case in range(len(EXTENTS[dynamic])):
        with torch.no_grad():
            results = runnable(**{name: value.tensors[case] for name, value in inputs.items()})
        for graph in module.graphs:
            for name, output in graph.named_outputs():
                if not fits(results[name], output, case):
                    wrong[graph.name] = graph
    return list(wrong.values())


def fits(result, output, case):
    expected = output.tensors[case]
    if result.dtype != expected.dtype or result.shape != expected.shape:
        return False
    if output.exact:
        return torch.equal(result, expected) or torch.allclose(result, expected, rtol=0, atol=0, equal_nan=True)
    return agrees(result, expected, output.doubles[case])


def is_dynamic(number):
    return number % 3 == 2


def count_modules(graphs):
    number = 0
    while graphs > 0:
        graphs -= GRAPHS_PER_MODULE[is_dynamic(number)]
        number += 1
    return number


def make_module(number, seed, out):
    """Draws, exports and writes one module; returns its entry."""
    torch.set_num_threads(1)
    logging.disable(logging.ERROR)  # the exporter prints a stack for every graph that it refuses
    warnings.simplefilter("ignore")
    start = time.monotonic()
    dynamic = is_dynamic(number)
    name = f"graphs_{number:04d}"
    draw_seed = seed * 1_000_003 + number
    inputs = draw_inputs(draw_seed, EXTENTS[dynamic])
    graphs = [draw_graph(f"g{k}", draw_seed * 1009 + k, inputs, OPS) for k in range(GRAPHS_PER_MODULE[dynamic])]
    module, exported, file, unfit = export_fitting(graphs, inputs, dynamic)
    (out / f"{name}.pt2").write_bytes(file)
    entry = {**write_cases(name, module, inputs, out, dynamic), "graphs": len(module.graphs), "seed": draw_seed,
             "nodes": len(exported.graph.nodes), "targets": case_files.count_targets(exported),
             "dropped": [{"graph": graph.name, "reason": reason, "steps": graph.describe()} for graph, reason in unfit]}
    return {**entry, "seconds": round(time.monotonic() - start, 2)}


def write_cases(name, module, inputs, out, dynamic):
    writer = case_files.CaseWriter()
    strided = []
    for case in range(len(EXTENTS[dynamic])):
        outputs = [pair for graph in module.graphs for pair in graph.named_outputs()]
        writer.add({key: value.tensors[case] for key, value in inputs.items()},
                   eager={key: value.tensors[case] for key, value in outputs},
                   fp64={key: value.doubles[case] for key, value in outputs if value.comparable},
                   base={key: value.bases[case] for key, value in inputs.items() if value.is_strided(case)})
        strided.append({key: value.describe_view(case) for key, value in inputs.items() if value.is_strided(case)})
    writer.write(out / f"{name}.cases.safetensors")
    rules = {key: {"exact": value.exact, "tolerance": value.tolerance_class} for key, value in outputs}
    return {"name": name, "file": f"{name}.pt2", "cases_file": f"{name}.cases.safetensors", "cases": writer.count,
            "dynamic": ["n"] if dynamic else [], "outputs": rules,
            "inputs": [{"name": key, "dtype": case_files.dtype_name(value.dtype)} for key, value in inputs.items()],
            "strided_inputs": strided}


def make_key(seed, count):
    return f"{case_files.hash_scripts(*(HERE / name for name in SCRIPTS))} torch {torch.__version__} " \
           f"seed {seed} count {count}"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the files")
    parser.add_argument("--count", type=int, default=2048, help="graphs (rounded up to whole modules)")
    parser.add_argument("--seed", type=int, help="default: random, printed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--complete", action="store_true", help="fail when graphs or operators are missing")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = secrets.randbelow(1 << 31)
    return arguments


def sum_targets(entries):
    targets = {}
    for entry in entries:
        for target, count in entry["targets"].items():
            targets[target] = targets.get(target, 0) + count
    return targets


def find_undrawn(entries):
    """Operators that the engine has code of its own for and that no graph of the run holds."""
    saved = {case_files.target_name(function) for function in random_shape_ops.SAVED_SIZE_OPERATORS}
    wanted = {target for target in operator_table.engine_rows()
              if target.startswith(("aten.", "higher_order.")) or target in saved}
    return sorted(wanted - NOT_DRAWN.keys() - sum_targets(entries).keys())


def draw_modules(arguments):
    """The entries of all modules. A complete run draws on while it lacks graphs or operators, up to a bound."""
    context = multiprocessing.get_context("fork")
    modules = count_modules(arguments.count)
    most = modules + (FURTHER_MODULES if arguments.complete else 0)
    entries = []
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs, mp_context=context) as pool:
        while modules > len(entries):
            pending = [pool.submit(make_module, number, arguments.seed, arguments.out)
                       for number in range(len(entries), modules)]
            entries += [future.result() for future in concurrent.futures.as_completed(pending)]
            if find_problem(arguments, entries):
                modules = min(most, modules + 3)  # one of three has a varying extent
    return entries


def find_problem(arguments, entries):
    """Why a complete run is none; an empty text where it is, or where none was asked for."""
    graphs, undrawn = sum(entry["graphs"] for entry in entries), find_undrawn(entries)
    if not arguments.complete or (graphs >= arguments.count and not undrawn):
        return ""
    return f"{graphs} of {arguments.count} graphs; never drawn: {', '.join(undrawn) or 'nothing'}"


def conclude(arguments, entries):
    """The exit status, and the reason where it is 1."""
    problem = find_problem(arguments, entries)
    if problem:
        print(problem, file=sys.stderr)
    return 1 if problem else 0


def write_index(arguments, key, entries):
    targets = sum_targets(entries)
    index = {"format": case_files.FORMAT, "key": key, "seed": arguments.seed, "torch": torch.__version__,
             "graphs": sum(entry["graphs"] for entry in entries), "targets": dict(sorted(targets.items())),
             "models": sorted(entries, key=lambda entry: entry["name"]), "skipped": []}
    case_files.write_json(arguments.out / "index.json", index)
    return index


def main():
    arguments = parse_arguments()
    arguments.out.mkdir(parents=True, exist_ok=True)
    key = make_key(arguments.seed, arguments.count)
    index = case_files.read_json(arguments.out / "index.json")
    if index and index.get("key") == key and all((arguments.out / entry["file"]).exists() for entry in index["models"]):
        print(f"{index['graphs']} graphs are there already, seed {arguments.seed}")
        return conclude(arguments, index["models"])
    start = time.monotonic()
    modules = count_modules(arguments.count)
    print(f"{modules} modules, seed {arguments.seed}", flush=True)
    entries = draw_modules(arguments)
    index = write_index(arguments, key, entries)
    dropped = [drop for entry in entries for drop in entry["dropped"]]
    for reason in sorted({drop["reason"] for drop in dropped}):
        print(f"left out {sum(drop['reason'] == reason for drop in dropped)} graphs: {reason}")
    aten = [target for target in index["targets"] if target.startswith("aten.")]
    print(f"{index['graphs']} graphs, {len(aten)} distinct aten overloads, {time.monotonic() - start:.0f} s, "
          f"seed {arguments.seed}, torch {torch.__version__}")
    return conclude(arguments, entries)


if __name__ == "__main__":
    sys.exit(main())
