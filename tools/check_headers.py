#!/usr/bin/env python3
"""Each header must compile by itself.   check_headers.py BUILD_FOLDER

A header that some source file includes first is proven by that file's own compilation; the others are compiled here. Takes the compiler and its flags from the build's compile_commands.json: those of a source file in the same folder, or,
for the public headers, those of src/base."""

import concurrent.futures
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from source_files import ROOT, list_files, sources_of, usable_cores

# What a folder's headers expect of the file that includes them.
EXPECTED = {"src/kernels/cpu": ["-DKPT_SIMD=header_check"]}  # the namespace of one instruction set
INSTRUCTION_SETS = ("avx", "neon")  # headers of one compile only with its flags, as the sources that include them do
TORCH_HEADER = "include/kpt/torch.h"  # the one public header that needs libtorch's


def compile_command(entry):
    """The compiler and the flags that matter for a header."""
    words = [word for word in shlex.split(entry["command"]) if not word.endswith("ccache")]
    flags, skip = [], False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in ("-o", "-c", "-include", "-MF", "-MT"):
            skip = True
        elif word not in ("-MD", "-Winvalid-pch") and word != entry["file"]:
            flags.append(word)
    return words[:1] + flags


def flags_by_folder(build):
    """For each source folder the command of the file that sees most include folders."""
    folders = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        sources = sources_of(entry["file"])
        if not sources:
            continue
        folder = str(Path(sources[0]).parent)
        command = compile_command(entry)
        if len(command) > len(folders.get(folder, [])):
            folders[folder] = command
    for folder, flags in EXPECTED.items():
        folders[folder] = folders[folder] + flags
    return folders


def first_includes():
    """Headers that a source file includes before anything else, as paths from the root."""
    proven = set()
    for name in list_files(".cpp"):
        first = re.search(r'^#include ["<]([^">]+)[">]', (ROOT / name).read_text(), re.MULTILINE)
        if first:
            for folder in ("src", "include", "tests", str(Path(name).parent)):
                proven.add(f"{folder}/{first.group(1)}")
    return proven


def check(header, command):
    source = f'#include "{ROOT / header}"\n#include "{ROOT / header}"\n'
    run = subprocess.run(command + ["-fsyntax-only", "-x", "c++", "-"], input=source, capture_output=True, text=True)
    return None if run.returncode == 0 else f"{header} does not stand by itself:\n{run.stderr[:1500]}"


def main():
    build = Path(sys.argv[1])
    folders = flags_by_folder(build)
    jobs = []
    proven = first_includes()
    headers = list_files(".h")
    for header in headers:
        if header in proven or Path(header).name.startswith(INSTRUCTION_SETS):
            continue
        folder = "src/engines/aten/module" if header == TORCH_HEADER else str(Path(header).parent)
        if folder == "src/engines/aten/module" and folder not in folders:
            continue  # a build without libtorch has none of its headers
        while folder not in folders and folder not in ("", "."):
            folder = str(Path(folder).parent)
        jobs.append((header, folders.get(folder) or folders["src/base"]))
    with concurrent.futures.ThreadPoolExecutor(usable_cores()) as pool:
        problems = [p for p in pool.map(lambda job: check(*job), jobs) if p]
    print("\n".join(problems) if problems else f"headers: {len(headers)} stand by themselves ({len(jobs)} compiled here)")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
