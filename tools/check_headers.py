#!/usr/bin/env python3
"""Each header must compile by itself.   check_headers.py BUILD_FOLDER

Takes the compiler and its flags from the build's compile_commands.json: those of a source file in the same folder, or,
for the public headers, those of src/base."""

import concurrent.futures
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def flags_by_folder(build):
    folders = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        flags, skip = [], False
        for word in words[1:]:
            if skip:
                skip = False
            elif word in ("-o", "-c", "-include", "-MF", "-MT"):
                skip = True
            elif not word.startswith(("-MD", "-Winvalid-pch")) and word != entry["file"]:
                flags.append(word)
        compiler = next(word for word in words if not word.endswith("ccache"))
        folders.setdefault(str(Path(entry["file"]).parent.relative_to(ROOT)) if entry["file"].startswith(str(ROOT)) else "", [compiler] + [f for f in flags if f != compiler])
    return folders


def check(header, command):
    source = f'#include "{ROOT / header}"\n#include "{ROOT / header}"\n'
    run = subprocess.run(command + ["-fsyntax-only", "-x", "c++", "-"], input=source, capture_output=True, text=True)
    return None if run.returncode == 0 else f"{header} does not stand by itself:\n{run.stderr[:1500]}"


def main():
    build = Path(sys.argv[1])
    folders = flags_by_folder(build)
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h"], cwd=ROOT, capture_output=True, text=True, check=True)
    jobs = []
    for header in names.stdout.split():
        folder = str(Path(header).parent)
        while folder not in folders and folder not in ("", "."):
            folder = str(Path(folder).parent)
        jobs.append((header, folders.get(folder) or folders["src/base"]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [p for p in pool.map(lambda job: check(*job), jobs) if p]
    print("\n".join(problems) if problems else f"headers: {len(jobs)} stand by themselves")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
