#!/usr/bin/env python3
"""Models with four rows, one on each of four host devices of XLA's CPU plugin, against the same on one device.

  tests/xla/check_sharded_rows.py build/cpu-release/bin/kpt MODEL.pt2…

Their first extent must be free. `kpt validate` cannot do it: it also draws a single row.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

ROWS = 4
TOLERANCE = 2e-5  # of an output's largest number: a device may add up in another order
SHARDED = ["--set", f"pjrt.devices={ROWS}", "--set", "pjrt.sharding=batch"]


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-800:]}")
    return done.stdout


def check(kpt, model, folder):
    first = json.loads(run([kpt, "inspect", model, "--json"]))["inputs"][0]["type"]
    symbol = re.search(r"\[([a-z]\w*)[,\]]", first)
    if symbol is None:
        raise SystemExit(f"{model}: its rows are fixed: {first}")
    place = ["--device", "xla:cpu", "--size", f"{symbol.group(1)}={ROWS}"]
    outputs = {}
    for name, settings in (("one", []), ("four", SHARDED)):
        file = str(Path(folder) / f"{name}.npz")
        run([kpt, "run", model, *place, *settings, "--outputs", file])
        outputs[name] = dict(numpy.load(file))
    runs = json.loads(run([kpt, "explain", model, *place, *SHARDED, "--runs", "1", "--json"]))["runs"]
    if f"on {ROWS} devices, each with its part of the batch" not in runs:
        raise SystemExit(f"{model} runs '{runs}'")
    if outputs["one"].keys() != outputs["four"].keys() or not outputs["one"]:
        raise SystemExit(f"{model}: other outputs: {list(outputs['one'])} and {list(outputs['four'])}")
    for name, one in outputs["one"].items():
        four = outputs["four"][name]
        if one.shape != four.shape or one.shape[0] != ROWS:
            raise SystemExit(f"{model}: {name} is {one.shape} on one device and {four.shape} on {ROWS}")
        apart = numpy.abs(four - one).max() / numpy.abs(one).max()
        print(f"{Path(model).stem}: {name} {one.shape}: {apart:.1e} apart; runs {runs}")
        if not apart <= TOLERANCE:  # NaN, too
            raise SystemExit(f"{model}: {name} differs by {apart:g} of its largest number")


def main():
    kpt, *models = sys.argv[1:]
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            check(kpt, model, folder)


if __name__ == "__main__":
    main()
