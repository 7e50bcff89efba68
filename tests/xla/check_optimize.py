#!/usr/bin/env python3
"""`kpt optimize` on a PJRT device: fusions apply, the gate passes, the file runs.

  tests/xla/check_optimize.py build/cpu-release/bin/kpt build/cpu-release/test_models/zoo/bert_fp32_static.pt2 xla:cpu

Further arguments: a level, and a pass that must have changed something at it.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

MUST_APPLY = ("fuse_attention", "fuse_linear", "merge_linear")


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def main():
    kpt, model, device = sys.argv[1:4]
    level = sys.argv[4] if len(sys.argv) > 4 else "balanced"
    must_apply = MUST_APPLY + tuple(sys.argv[5:])
    with tempfile.TemporaryDirectory() as folder:
        artifact = str(Path(folder) / "optimized.kpt")
        # Not measured: which passes win on a busy machine is not what is tested.
        report = json.loads(run([kpt, "optimize", model, "--device", device, "--level", level, "--no-measure", "--draws", "1",
                                 "--no-cache", "--json", "-o", artifact]))
        changes = {}
        for row in report["passes"]:
            changes[row["pass"]] = changes.get(row["pass"], 0) + row["changes"]
            if row["skipped"]:
                print(f"{row['pass']}: {row['skipped']}")
        print({name: count for name, count in changes.items() if count})
        missing = [name for name in must_apply if not changes.get(name)]
        if missing or not report["passed"]:
            raise SystemExit(f"passed: {report['passed']}, passes that changed nothing: {missing}")
        run([kpt, "run", artifact, "--device", device])


if __name__ == "__main__":
    main()
