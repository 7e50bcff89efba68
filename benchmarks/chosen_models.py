#!/usr/bin/env python3
"""Which models of an exported folder some names mean, as --only of export_models.py takes them: the name of a file, a
pattern over these, or the name of a model, which stands for all its files.

  chosen_models.py DIR NAME…    prints the GoogleTest filter of their tests; ends with 1 when there is none
"""

import fnmatch
import json
import sys
from pathlib import Path


def is_chosen(entry, names):
    return any(fnmatch.fnmatch(entry["name"], name) or entry.get("architecture") == name for name in names)


def count_steps(entry):
    """How often the first case of a model can run before its cache may be full; None where a run takes no place in one.

    A case of a model with varying extents takes several places.
    """
    if not entry["stateful_steps"] or any(given["name"] == "cache_position" for given in entry["inputs"]):
        return None
    return 1 if entry.get("ranges") else entry["stateful_steps"]


def read_index(folder):
    file = Path(folder) / "index.json"
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        raise SystemExit(f"{file} is missing; tests/models/export_models.py writes it") from None


def main():
    folder, names = sys.argv[1], sys.argv[2:]
    chosen = [entry["name"] for entry in read_index(folder)["models"] if is_chosen(entry, names)]
    if not chosen:
        print(f"no model of {folder} is named {' '.join(names)}", file=sys.stderr)
        return 1
    print(":".join(f"Models.{name}" for name in chosen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
