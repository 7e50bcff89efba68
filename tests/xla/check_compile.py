#!/usr/bin/env python3
"""`kpt compile --target xla:cpu` with XLA's CPU plugin: the stored program runs, gives the model's answers, and is left
aside with a reason where it does not fit.

  tests/xla/check_compile.py build/cpu-release/bin/kpt STATIC.pt2 DYNAMIC.pt2
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path


def run(command, wanted=0):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != wanted:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-800:]}")
    return done


def expect(what, text, *parts):
    missing = [part for part in parts if part not in text]
    if missing:
        raise SystemExit(f"{what} lacks {missing}: {text[-2000:]}")


def main():
    kpt, static, dynamic = sys.argv[1:4]
    with tempfile.TemporaryDirectory() as folder:
        no_cache = ["--set", "cache.budget_bytes=0", "--set", "log.level=info"]
        plain = str(Path(folder) / "plain.kpt")
        made = json.loads(run([kpt, "compile", static, "--target", "xla:cpu", "-o", plain, "--json", *no_cache]).stdout)
        figures = made["targets"][0]["figures"]
        print(figures)
        for name in ("argument_bytes", "output_bytes", "temporary_bytes"):
            if figures[name] is None:
                raise SystemExit(f"the plugin does not tell {name}")
        validated = run([kpt, "validate", static, plain, "--devices", "xla:cpu", "--draws", "1", *no_cache])
        expect("validate", validated.stderr, "stored=true")
        one = run([kpt, "run", plain, "--device", "xla:cpu", "--set", "threads.count=1", *no_cache])
        expect("run with one thread", one.stderr, "a stored program is not used", "threads.count", "stored=false")

        sized = str(Path(folder) / "sized.kpt")
        refused = run([kpt, "compile", dynamic, "--target", "xla:cpu"], wanted=1).stderr
        expect("free sizes", refused, "a program for xla:cpu has fixed sizes")
        free = re.search("the model leaves (.*) free", refused).group(1).split(", ")
        sizes = [word for name in free for word in ("--size", f"{name}=8")]
        run([kpt, "compile", dynamic, "--target", "xla:cpu", "-o", sized, *sizes, *no_cache])
        validated = run([kpt, "validate", dynamic, sized, "--devices", "xla:cpu", "--draws", "1", *sizes, *no_cache])
        expect("validate of given sizes", validated.stderr, "stored=true")

        level = str(Path(folder) / "level.kpt")
        made = json.loads(run([kpt, "compile", static, "--target", "xla:cpu", "--level", "balanced", "-o", level, "--json",
                               *no_cache]).stdout)
        told = made["targets"][0]["level"]
        changed = {row["pass"] for row in told["passes"] if row["changes"]}
        print(changed)
        if told["judged_on"] != "xla:cpu" or not told["report"]["passed"] or "fuse_attention" not in changed:
            raise SystemExit(f"the level was not judged on xla:cpu: {told['judged_on']}, {changed}")
        validated = run([kpt, "validate", static, level, "--devices", "xla:cpu", "--draws", "1", *no_cache])
        expect("validate of a level", validated.stderr, "stored=true")


if __name__ == "__main__":
    main()
