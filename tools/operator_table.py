#!/usr/bin/env python3
"""Writes docs/reference/operators.md: how each operator runs, and which tests ran it.

  operator_table.py --folders build/…/test_models/zoo build/…/test_models/graphs    writes the page anew
  operator_table.py --own                                                            writes only the section on our own operators
  operator_table.py --check                                                          fails when the page lacks a row of the sources

The tables of the engine are read from its sources; what the tests ran from the index.json of exported folders.
"""

import argparse
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "src/engines/aten/module"
PAGE = ROOT / "docs/reference/operators.md"
OWN_CONTRACT = ROOT / "src/ir/own_operators.cpp"
OWN_TARGETS = ROOT / "src/engines/aten/own_targets.h"

HEAD = """# Operators

How each operator of a graph runs on the CPU backend. Written by `tools/operator_table.py`; `make lint` fails when it
does not fit the engine's tables.

- **own**: our code, no libtorch operator.
- **typed**: a function of ours that calls libtorch's kernel directly and writes into planned memory.
- **planned**: through the dispatcher, the result written into planned memory where its sizes are known.
- **boxed**: through the dispatcher; libtorch allocates the result. *Every `aten` operator that the loaded
  libtorch has can run this way*, those not listed here too, but for the few that open files, take bare memory or change
  which memory a tensor stands for. Custom operators are refused.
- **none**: refused at load, by name.

*models* and *graphs* say how many nodes of the exported test models and of the random graphs had this target the last
time the page was written; 0 means that no test ran it.

Of the higher-order operators `cond` and `while_loop` run, which the golden models of `tests/golden` hold against PyTorch;
`wrap_with_set_grad_enabled` and `wrap_with_autocast` are inlined when a file is read; all others are refused.

"""


OWN_HEAD = """## Operators of our own

Passes put these into graphs; no exporter writes them, and a `.pt2` file with such a name is refused. What each means is
in `src/ir/own_operators.h`. Backends that have no kernel for one are not given it, and refuse graphs with it.

| operator | runs on | arguments | results |
|---|---|---|---|
"""

TABLE_HEAD = """
## Operators of PyTorch

"""


def own_operators():
    """(target, argument names, number of results) of the contract, in its order."""
    text = OWN_CONTRACT.read_text()
    names = {name: re.findall(r'"(\w+)"', body) for name, body in re.findall(r"Name (k\w+)\[\] = \{([^}]*)\}", text)}
    return [(target, names[name], int(results))
            for target, name, results in re.findall(r'\{"(kpt\.[\w.]+)", (k\w+), (\d)\}', text)]


def own_rows():
    tables = dict(re.findall(r"(k\w*OwnTargets)\[\] = \{([^}]*)\}", OWN_TARGETS.read_text()))
    places = {"cpu": tables["kOwnTargets"], "nvidia": tables["kCudaOwnTargets"]}
    return {target: " and ".join(name for name, table in places.items() if f'"{target}"' in table) or "none"
            for target, _, _ in own_operators()}


def own_section():
    rows = own_rows()
    return OWN_HEAD + "".join(f"| `{target}` | {rows[target]} | {', '.join(arguments)} | {results} |\n"
                              for target, arguments, results in own_operators())


def read_entries(file_name, pattern):
    return re.findall(pattern, (MODULE / file_name).read_text(), re.MULTILINE)


def engine_rows():
    """Target → how, from the engine's own tables."""
    rows = {}
    for target in read_entries("out_variants.cpp", r'^ +\{"([\w.]+)", "\w+"\},'):
        rows[target] = "planned"
    for target in read_entries("typed_nodes.cpp", r'\{"([\w.]+)", \w+_fits, \w+\},'):
        rows[target] = "typed"
    for target in read_entries("number_nodes.cpp", r'^ +\{"([\w.]+)", \d, \w+\},'):
        rows[target] = "own"
    rows["higher_order.cond"] = rows["higher_order.while_loop"] = "own"
    return {**rows, **own_rows()}


def count_targets(folder):
    counts = {}
    for entry in json.loads((folder / "index.json").read_text())["models"]:
        for target, count in entry["targets"].items():
            target = re.sub(r"^torch\.ops\.", "", target)
            target = re.sub(r"^<built-in function (\w+)>$", r"_operator.\1", target)
            counts[target] = counts.get(target, 0) + count
    counts.pop("_operator.getitem", None)  # a list's items are values of their own here
    return counts


def write_page(folders):
    rows, counts = engine_rows(), [count_targets(folder) for folder in folders]
    targets = sorted({*rows, *counts[0], *counts[1]} - own_rows().keys())
    lines = ["| operator | how | models | graphs |", "|---|---|---|---|"]
    for target in targets:
        lines.append(f"| `{target}` | {rows.get(target, 'boxed')} | {counts[0].get(target, 0)} | {counts[1].get(target, 0)} |")
    PAGE.write_text(HEAD + own_section() + TABLE_HEAD + "\n".join(lines) + "\n")
    print(f"operators: {len(targets)} rows written")
    return 0


def write_own_section():
    page = PAGE.read_text()
    start, end = page.index(OWN_HEAD.splitlines()[0]), page.index(TABLE_HEAD)
    PAGE.write_text(page[:start] + own_section() + page[end:])
    print(f"operators: {len(own_rows())} rows of our own written")
    return 0


def check_page():
    page = dict(re.findall(r"^\| `([^`]+)` \| ([\w ]+) \|", PAGE.read_text(), re.MULTILINE))
    rows = engine_rows()
    problems = [f"{PAGE.name}: {target} is '{page.get(target, 'missing')}', the engine says '{how}'"
                for target, how in rows.items() if page.get(target) != how]
    problems += [f"{PAGE.name}: {target} is '{how}', but the engine has no such entry"
                 for target, how in page.items() if how != "boxed" and target not in rows]
    print("\n".join(problems) if problems else f"operators: {len(page)} rows, {len(rows)} from the engine's tables")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", type=Path, nargs=2, metavar=("MODELS", "GRAPHS"))
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        return check_page()
    if arguments.own:
        return write_own_section()
    if arguments.folders is None:
        parser.error("give --folders, --own or --check")
    return write_page(arguments.folders)


if __name__ == "__main__":
    sys.exit(main())
