#!/usr/bin/env python3
"""Each header must compile by itself.   check_headers.py BUILD_FOLDER

A header that comes first in something that the build compiles is proven by that; of sources that CMake joined into one,
only the first has this effect. The others are compiled here, several in one go where that hides nothing: a header may come
behind those that it includes itself. Takes the compiler and its flags from the build's compile_commands.json: those of a
source file in the same folder, or, for the public headers, those of src/base. KPT_LINT_SHARE=N leaves some out
(source_files.py)."""

import concurrent.futures
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from source_files import ROOT, list_files, make_chooser, sources_of, usable_cores

# What a folder's headers expect of the file that includes them.
EXPECTED = {
    "src/kernels/cpu": ["-DKPT_SIMD=header_check"],  # the namespace of one instruction set
    "src/engines/aten": [f"-I{ROOT}/tests"],  # what its tests alone include
    "src/engines/xla/testing": [f"-I{ROOT}/tests"],
}
INSTRUCTION_SETS = ("avx", "neon")  # headers of one compile only with its flags, as the sources that include them do
TORCH_HEADER = "include/kpt/torch.h"  # the one public header that needs libtorch's
TORCH_FOLDER = "src/engines/aten/module"  # whose flags find them
CUDA_FOLDER = "src/engines/aten/cuda"  # its headers need libtorch's, and its sources are not part of every build
INCLUDE = re.compile(r'#include ["<]([^">]+)[">]')


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


def count_includes(command):
    return sum(word.startswith(("-I", "-isystem")) for word in command)


def flags_by_folder(build):
    """For each source folder the command of the file that sees most include folders."""
    folders = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        command = compile_command(entry)
        for folder in {str(Path(source).parent) for source in sources_of(entry["file"])}:
            if folder not in folders or count_includes(command) > count_includes(folders[folder]):
                folders[folder] = command
    for folder, flags in EXPECTED.items():
        folders[folder] = folders[folder] + flags
    return folders


def find_header(word, source, headers):
    """The file of the tree that an include of `source` means, or None."""
    for folder in ("src", "include", "tests", str(Path(source).parent)):
        if f"{folder}/{word}" in headers:
            return f"{folder}/{word}"
    return None


def first_includes(build, headers):
    """Headers that the build compiles before anything else."""
    proven = set()
    for entry in json.loads((build / "compile_commands.json").read_text()):
        for source in sources_of(entry["file"])[:1]:
            first = re.search("^" + INCLUDE.pattern, (ROOT / source).read_text(), re.MULTILINE)
            proven.add(first and find_header(first.group(1), source, headers))
    return proven


def find_closures(headers):
    """For each header those that it includes whatever macros are set, directly and through others."""
    direct = {}
    for header in headers:
        depth, direct[header] = 0, set()
        for line in (ROOT / header).read_text().splitlines():
            depth += line.startswith("#if") - line.startswith("#endif")
            if depth == 0 and (include := INCLUDE.match(line)):
                direct[header].add(find_header(include.group(1), header, headers))
        direct[header].discard(None)
    closures = {}

    def close(header):
        if header not in closures:
            closures[header] = set(direct[header]).union(*(close(other) for other in direct[header]))
        return closures[header]
    for header in headers:
        close(header)
    return closures


def make_chains(headers, closures):
    """As few lists as possible, in which each header includes the one before it."""
    behind = {header: [other for other in headers if header in closures[other]] for header in headers}
    next_of, before = {}, {}

    def give_successor(header, tried):
        for other in behind[header]:
            if other not in tried:
                tried.add(other)
                if other not in before or give_successor(before[other], tried):
                    next_of[header], before[other] = other, header
                    return True
        return False
    for header in headers:
        give_successor(header, set())
    chains = [[header] for header in headers if header not in before]
    for chain in chains:
        while chain[-1] in next_of:
            chain.append(next_of[chain[-1]])
    return chains


def check(chain, command):
    """Each header twice: it must bear that, too."""
    source = "".join(f'#include "{ROOT / header}"\n' * 2 for header in chain)
    run = subprocess.run(command + ["-fsyntax-only", "-x", "c++", "-"], input=source, capture_output=True, text=True)
    return None if run.returncode == 0 else f"one of {', '.join(chain)} does not stand by itself:\n{run.stderr[:1500]}"


def add_cuda(command):
    """The command with the folders of CUDA's headers, those beside libtorch's first; None where there are none."""
    beside = [Path(word).parents[1] for word in command or [] if word.endswith("/torch/include")]
    found = [folder for packages in beside for folder in sorted(packages.glob("nvidia/*/include"))]
    found.append(Path("/usr/local/cuda/include"))
    if not any((folder / "cuda_runtime.h").exists() for folder in found):
        return None
    return command + [word for folder in found for word in ("-isystem", str(folder))]


def find_flags(header, folders):
    """The command to compile a header with, or None in a build without libtorch or CUDA's for one that needs them."""
    folder = str(Path(header).parent)
    if folder == CUDA_FOLDER:
        return add_cuda(folders.get(TORCH_FOLDER))
    if header == TORCH_HEADER or folder == TORCH_FOLDER:
        return folders.get(TORCH_FOLDER)
    while folder not in folders and folder not in ("", "."):
        folder = str(Path(folder).parent)
    return folders.get(folder) or folders["src/base"]


def main():
    build = Path(sys.argv[1])
    folders = flags_by_folder(build)
    headers = list_files(".h")
    known = set(headers)
    proven = first_includes(build, known)
    left = [header for header in headers
            if header not in proven and not Path(header).name.startswith(INSTRUCTION_SETS) and find_flags(header, folders)]
    all_chains = make_chains(left, find_closures(known))
    is_chosen = make_chooser()
    chains = [chain for chain in all_chains if is_chosen(chain)]
    with concurrent.futures.ThreadPoolExecutor(usable_cores()) as pool:
        # The last of a chain includes all others, so its flags find what they need.
        problems = [p for p in pool.map(lambda chain: check(chain, find_flags(chain[-1], folders)), chains) if p]
    others = f", {len(all_chains) - len(chains)} others left to another commit" if len(chains) < len(all_chains) else ""
    print("\n".join(problems) if problems
          else f"headers: {len(headers)}, {len(left)} of them compiled here, in {len(chains)} compilations{others}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
