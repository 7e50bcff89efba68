#!/usr/bin/env python3
"""Every exported model on several devices, pairwise and against fp64: `kpt validate` over a folder.

  tests/models/validate_devices.py build/cuda-release/bin/kpt build/cuda-release/test_models/zoo cpu,nvidia:0,xla:cuda

One line a model: the largest error of each device against fp64, relative to an output's root mean square, and the largest
difference between elements of two of them. Ends with 1 when a model is not valid and with 77 (skipped, for ctest) when a
device is not there.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SKIPPED = 77


def validate(kpt, model, devices, limit_s):
    """The report of one model, or {"error": …}."""
    command = [kpt, "validate", str(model), "--devices", devices, "--draws", "1", "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": {"code": "timeout", "message": f"no answer within {limit_s:g} s"}}
    except json.JSONDecodeError:
        return {"error": {"code": "internal", "message": f"exit status {done.returncode}: {done.stderr.strip()[-300:]}"}}


def line(name, report):
    if "error" in report:
        return f"{name}: {report['error']['code']}: {report['error']['message']}"
    errors = ", ".join(
        "{} {:.1e}".format(one["label"], max((output["candidate_error"] or 0 for output in one["gate"]["outputs"]), default=0))
        for one in report["contenders"])
    difference = max((pair["max_difference"] or 0 for pair in report["pairs"]), default=0)
    return f"{name}: {'valid' if report['passed'] else 'NOT VALID'}; against fp64 {errors}; between two {difference:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kpt")
    parser.add_argument("folder", type=Path)
    parser.add_argument("devices", help="with commas between")
    parser.add_argument("--models", nargs="+", default=["*"], help="which files, as patterns (default all); each must fit one")
    parser.add_argument("--jobs", type=int, default=4, help="models at a time (default 4)")
    parser.add_argument("--limit-s", type=float, default=300, help="seconds for one model (default 300)")
    arguments = parser.parse_args()
    found = {pattern: list(arguments.folder.glob(pattern + ".pt2")) for pattern in arguments.models}
    for pattern, files in found.items():
        if not files:
            raise SystemExit(f"validate_devices: no {pattern}.pt2 in {arguments.folder}")
    models = sorted({file for files in found.values() for file in files})

    wrong = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        reports = pool.map(lambda model: validate(arguments.kpt, model, arguments.devices, arguments.limit_s), models)
        for model, report in zip(models, reports):
            print(line(model.stem, report), flush=True)
            if report.get("error", {}).get("code") == "device_not_available":
                pool.shutdown(cancel_futures=True)
                return SKIPPED
            wrong += not report.get("passed", False)
    print(f"{len(models) - wrong} of {len(models)} models are valid on {arguments.devices}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
