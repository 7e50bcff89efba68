#!/usr/bin/env python3
"""Every exported model on several devices, pairwise and against fp64: `kpt validate` over a folder.

  tests/models/validate_devices.py build/cuda-release/bin/kpt build/cuda-release/test_models/zoo cpu,nvidia:0,xla:cuda

One line a model: the largest error of each device against fp64, relative to an output's root mean square, and the largest
difference between elements of two of them. Ends with 1 when a model is not valid, or does not run as --runs says, and with
77 (skipped, for ctest) when a device is not there.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SKIPPED = 77


def ask(command, limit_s):
    """What `kpt` prints as JSON, or {"error": …}."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        return json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {"error": {"code": "timeout", "message": f"no answer within {limit_s:g} s"}}
    except json.JSONDecodeError:
        return {"error": {"code": "internal", "message": f"exit status {done.returncode}: {done.stderr.strip()[-300:]}"}}


def validate(model, arguments):
    """The report of one model, with how it runs on the last device where that is asked for, or {"error": …}."""
    settings = [word for setting in arguments.set for word in ("--set", setting)]
    report = ask([arguments.kpt, "validate", str(model), "--devices", arguments.devices, "--draws", "1", "--json", *settings],
                 arguments.limit_s)
    if "error" in report or not arguments.runs:
        return report
    device = arguments.devices.split(",")[-1]
    explained = ask([arguments.kpt, "explain", str(model), "--device", device, "--runs", "1", "--json", *settings],
                    arguments.limit_s)
    if "error" in explained:
        return explained
    if arguments.runs not in explained["runs"]:
        message = f"it runs '{explained['runs']}' on {device}, which is not '{arguments.runs}'"
        return {"error": {"code": "runs", "message": message}}
    return {**report, "runs": explained["runs"]}


def line(name, report):
    if "error" in report:
        return f"{name}: {report['error']['code']}: {report['error']['message']}"
    errors = ", ".join(
        "{} {:.1e}".format(one["label"], max((output["candidate_error"] or 0 for output in one["gate"]["outputs"]), default=0))
        for one in report["contenders"])
    difference = max((pair["max_difference"] or 0 for pair in report["pairs"]), default=0)
    verdict = "valid" if report["passed"] else "NOT VALID"
    runs = f"; runs {report['runs']}" if "runs" in report else ""
    return f"{name}: {verdict}; against fp64 {errors}; between two {difference:.1e}{runs}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kpt")
    parser.add_argument("folder", type=Path)
    parser.add_argument("devices", help="with commas between")
    parser.add_argument("--models", nargs="+", default=["*"], help="which files, as patterns (default all); each must fit one")
    parser.add_argument("--jobs", type=int, default=4, help="models at a time (default 4)")
    parser.add_argument("--limit-s", type=float, default=300, help="seconds for one model (default 300)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option for kpt, several times")
    parser.add_argument("--runs", metavar="TEXT", help="what `kpt explain` must say of the runs on the last device")
    arguments = parser.parse_args()
    found = {pattern: list(arguments.folder.glob(pattern + ".pt2")) for pattern in arguments.models}
    for pattern, files in found.items():
        if not files:
            raise SystemExit(f"validate_devices: no {pattern}.pt2 in {arguments.folder}")
    models = sorted({file for files in found.values() for file in files})

    wrong = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        reports = pool.map(lambda model: validate(model, arguments), models)
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
