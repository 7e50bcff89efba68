#!/usr/bin/env python3
"""Writes docs/reference/operators.md: how each operator runs, and which tests ran it.

  operator_table.py --kpt build/…/bin/kpt --folders build/…/test_models/zoo build/…/test_models/graphs   the page anew
  operator_table.py --own                                        only the section on our own operators
  operator_table.py --check                                      fails when the page does not fit the sources

How an operator runs is read from the sources of importer and engine. What the tests ran is counted by `kpt inspect`, in
the graphs as they are after import: of the two folders and of the golden files.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "src/engines/aten/module"
IMPORT = ROOT / "src/importer/normalize.cpp"
GOLDEN = ROOT / "tests/golden/pt2"
BUILT_BY_HAND = ("tests/execution", "src/importer")
PAGE = ROOT / "docs/reference/operators.md"
OWN_CONTRACT = ROOT / "src/ir/own_operators.cpp"
OWN_TARGETS = ROOT / "src/engines/aten/own_targets.h"

HEAD = """# Operators

How each operator of a graph runs on the CPU backend. Written by `tools/operator_table.py`; `make lint` fails when it
does not fit the tables of importer and engine.

- **own**: our code in place of the operator; types that it does not take run boxed.
- **typed**: a function of ours that calls libtorch's kernel directly and writes into planned memory.
- **planned**: through the dispatcher, the result written into planned memory where its sizes are known.
- **boxed**: through the dispatcher; libtorch allocates the result. *Every `aten` operator that the loaded
  libtorch has can run this way*, those not listed here too, but for those marked none.
- **removed**: gone when a file is read, since it does nothing in inference; the few that do something (dropout in
  training mode, detach where tensors are reshaped in place) stay and run boxed.
- **inlined**: a region whose nodes take its place when a file is read.
- **none**: refused at load, by name and with its line of Python, in all overloads. So are operators that take bare
  memory, custom operators (any name that does not begin with `aten.`), and all higher-order operators that are not
  listed here.

*models*, *graphs* and *golden* say how many nodes of the exported test models, of the random graphs and of the golden
files had this target, after import, the last time the page was written; what is removed, inlined or refused has none
then. *elsewhere* names a test that builds such nodes by hand, for those that no file holds. Where all are 0 and nothing
is named, no test has it.

"""


OWN_HEAD = """## Operators of our own

Passes put these into graphs; no exporter writes them, and a `.pt2` file with such a name is refused. What each means is
in `src/ir/own_operators.h`. Backends that have no kernel for one are not given it, and refuse graphs with it. *amd* is our
engine without libtorch, *amd (libtorch)* the one through libtorch's ROCm build; which GPUs have the instructions for one
is on the pages of the backends.

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
    tables = dict(re.findall(r"(k\w*OwnTargets)\[\] = \{(.*?)\n?\};", OWN_TARGETS.read_text(), re.DOTALL))
    lowered = {engine: "".join(path.read_text() for path in sorted((ROOT / "src/engines" / engine).glob(pattern)))
               for engine, pattern in (("native", "lower_*.cpp"), ("xla", "stablehlo/own_rules.cpp"))}
    places = {"cpu": tables["kOwnTargets"], "nvidia": tables["kCudaOwnTargets"], "amd": lowered["native"],
              "amd (libtorch)": tables["kRocmOwnTargets"], "xla and tpu": lowered["xla"]}
    return {target: ", ".join(name for name, table in places.items() if f'{{"{target}"' in table or
                              f' "{target}"' in table) or "none"
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
    for target in read_entries("replaced_nodes.cpp", r'^ +\{"([\w.]+)", \w+_fits, (?!nullptr)\w+,\s+\w+,\s+\w+\},'):
        rows[target] = "own"
    for target in read_entries("number_nodes.cpp", r'^ +\{"([\w.]+)", \d, \w+\},'):
        rows[target] = "own"
    for target in read_entries("bind_node.cpp", r'node\.target == "(higher_order\.\w+)"'):
        rows[target] = "own"
    return {**rows, **own_rows()}


def import_rows():
    """Target → how, for what the importer takes out of a graph."""
    text = IMPORT.read_text()
    rows = {f"higher_order.{name}": "inlined" for name in re.findall(r'node\.target == "higher_order\.(\w+)"\) return inline', text)}
    for table in ("kDropped", "kAliases", "kDropouts"):
        body = re.search(rf"{table} = \{{([^}}]*)\}}", text).group(1)
        rows.update(dict.fromkeys(re.findall(r'"([\w.]+)"', body), "removed"))
    return rows


def refused_rows():
    """Operators that the engine refuses by name, whatever the overload."""
    body = re.search(r"kRefused\[\] = \{([^}]*)\}", (MODULE / "bind_node.cpp").read_text()).group(1)
    return {name.replace("::", "."): "none" for name in re.findall(r'"(aten::\w+)"', body)}


def all_rows():
    return {**engine_rows(), **import_rows(), **refused_rows()}


def count_targets(kpt, files):
    """Target → number of nodes in these files, as `kpt inspect` shows them after import."""
    counts = {}
    for file in files:
        done = subprocess.run([str(kpt), "inspect", str(file), "--json"], capture_output=True, text=True, check=True)
        for target, count in json.loads(done.stdout)["operators"].items():
            counts[target] = counts.get(target, 0) + count
    return counts


def files_of(folder):
    """Those that the folder's index names: others may be left of an earlier run."""
    return [folder / entry["file"] for entry in json.loads((folder / "index.json").read_text())["models"]]


def find_builders(targets):
    """Target, or all overloads of one → the test that builds its nodes by hand."""
    sources = {path.name: path.read_text() for folder in BUILT_BY_HAND for path in sorted((ROOT / folder).glob("*_test.cpp"))}
    return {target: next((f"`{name}`" for name, text in sources.items() if f'"{target}"' in text or f'"{target}.' in text), "")
            for target in targets}


def write_page(kpt, folders):
    rows = all_rows()
    counts = [count_targets(kpt, files) for files in (*map(files_of, folders), sorted(GOLDEN.glob("*/*.pt2")))]
    targets = sorted({*rows, *counts[0], *counts[1], *counts[2]} - own_rows().keys())
    unseen = find_builders([target for target in targets if not any(count.get(target) for count in counts)])
    lines = ["| operator | how | models | graphs | golden | elsewhere |", "|---|---|---|---|---|---|"]
    for target in targets:
        numbers = " | ".join(str(count.get(target, 0)) for count in counts)
        lines.append(f"| `{target}` | {rows.get(target, 'boxed')} | {numbers} | {unseen.get(target, '')} |")
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
    page = dict(re.findall(r"^\| `([^`]+)` \| ([\w ,()]+) \|", PAGE.read_text(), re.MULTILINE))
    rows = all_rows()
    problems = [f"{PAGE.name}: {target} is '{page.get(target, 'missing')}', the sources say '{how}'"
                for target, how in rows.items() if page.get(target) != how]
    problems += [f"{PAGE.name}: {target} is '{how}', but the sources have no such entry"
                 for target, how in page.items() if how != "boxed" and target not in rows]
    print("\n".join(problems) if problems else f"operators: {len(page)} rows, {len(rows)} from the sources' tables")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folders", type=Path, nargs=2, metavar=("MODELS", "GRAPHS"))
    parser.add_argument("--kpt", type=Path, help="the program that counts")
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        return check_page()
    if arguments.own:
        return write_own_section()
    if arguments.folders is None or arguments.kpt is None:
        parser.error("give --folders and --kpt, --own, or --check")
    return write_page(arguments.kpt, arguments.folders)


if __name__ == "__main__":
    sys.exit(main())
