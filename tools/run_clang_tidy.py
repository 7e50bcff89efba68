#!/usr/bin/env python3
"""clang-tidy on the sources of the build, on all cores.   run_clang_tidy.py BUILD_FOLDER CLANG_TIDY [PREFIX…]

The analysis of paths (clang-analyzer) takes nine tenths of the time, tests and benchmarks half of the rest: both only
with KPT_LINT_DEEP=1, as `make check-full` has it. What is left is the reading of headers: in a build whose sources are
joined it is done once for several of them. KPT_LINT_SHARE=N leaves some out (source_files.py). With prefixes only sources
whose path begins with one, whatever they are: for what one kind of build alone has.
A file that passed is not looked at again until it, any header, its compile command or the configuration changes."""

import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from source_files import ROOT, list_files, make_chooser, sources_of, usable_cores

# Tests and fakes set variables, hold global strings and are not analysed for paths; naming and plain bugs still count.
TEST_CHECKS = "-clang-analyzer-*,-concurrency-*,-performance-*,-cppcoreguidelines-*,-bugprone-throwing-static-initialization"
# A file of joined sources includes sources.
QUICK_CHECKS = "-clang-analyzer-*,-bugprone-suspicious-include"


def is_test(name):
    return name.endswith("_test.cpp") or name.startswith(("tests/", "benchmarks/")) or "/test_data/" in name


def common_state(tidy):
    state = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    state.update(Path(__file__).read_bytes())
    state.update(subprocess.run([tidy, "--version"], capture_output=True, check=True).stdout)
    for name in list_files(".h"):
        state.update(name.encode() + (ROOT / name).read_bytes())
    return state.digest()


def folder_checks(source):
    """What the .clang-tidy of a folder adds: clang-tidy does not find it for joined sources, which lie in the build."""
    configurations = (folder / ".clang-tidy" for folder in (ROOT / source).parents if folder != ROOT and ROOT in folder.parents)
    texts = (file.read_text() for file in configurations if file.exists())
    return [checks for text in texts for checks in re.findall(r"^Checks: *'([^']*)'", text, re.MULTILINE)]


def choose_checks(sources):
    checks = sorted({checks for source in sources for checks in folder_checks(source)})
    if any(map(is_test, sources)):
        checks.append(TEST_CHECKS)
    elif not os.environ.get("KPT_LINT_DEEP"):
        checks.append(QUICK_CHECKS)
    return [f"--checks={','.join(checks)}"] if checks else []


def run(file, checks, build, tidy, key, stamp):
    command = [tidy, "-p", str(build), "--quiet", *checks, file]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if result.returncode == 0:
        stamp.write_text(key)
        return None
    return result.stdout or result.stderr


def main():
    build, tidy, prefixes = Path(sys.argv[1]).resolve(), sys.argv[2], tuple(sys.argv[3:])
    common = common_state(tidy)
    stamps = build / "clang_tidy"
    stamps.mkdir(exist_ok=True)
    start, jobs, total, left_out = time.monotonic(), [], 0, 0
    is_chosen = make_chooser()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        sources = sources_of(entry["file"])
        if not sources or (any(map(is_test, sources)) and not os.environ.get("KPT_LINT_DEEP")):
            continue
        if prefixes and not any(source.startswith(prefixes) for source in sources):
            continue
        if not is_chosen(sources):
            left_out += len(sources)
            continue
        total += len(sources)
        checks = choose_checks(sources)
        state = hashlib.sha256(common + (entry["command"] + " ".join(checks)).encode())
        for source in sources:
            state.update((ROOT / source).read_bytes())
        stamp = stamps / (os.path.relpath(entry["file"], ROOT).replace("/", "_") + ".ok")
        if not stamp.exists() or stamp.read_text() != state.hexdigest():
            jobs.append((entry["file"], checks, build, tidy, state.hexdigest(), stamp))
    if prefixes and total == 0:
        print(f"clang-tidy: nothing in {build} is below {' or '.join(prefixes)}")
        return 1
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(usable_cores()) as pool:
        futures = [pool.submit(run, *job) for job in jobs]
        for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
            if sys.stderr.isatty():
                print(f"\rclang-tidy {done}/{len(jobs)}", end="", file=sys.stderr)
            if complaint := future.result():
                failed += 1
                print(complaint, flush=True)
    others = f", {left_out} files left to another commit" if left_out else ""
    print(f"clang-tidy: {total} files{others}, {len(jobs)} compilations looked at, {failed} with findings, "
          f"{time.monotonic() - start:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
