#!/usr/bin/env python3
"""Refuses includes that go up the layer table, headers of libtorch outside their folders, and a few calls that belong
to one place only. The table is cmake/kpt_layers.cmake, the same that CMake enforces for links."""

import re
import sys
from pathlib import Path

from source_files import ROOT, list_files

TABLE = ROOT / "cmake" / "kpt_layers.cmake"

TORCH_HEADER = re.compile(r"^(torch|ATen|c10|caffe2)/")
CUDA_HEADER = re.compile(r"^(cuda|cublas|cudnn|nvml|hip/|hip_|cufft|nccl)[\w/]*\.h")
VENDOR_FOLDERS = (
    "src/kernels/", "src/engines/aten/cuda/", "src/engines/xla/pjrt/",
    "src/backends/nvidia/", "src/backends/amd/", "src/backends/tpu/",
)
# Everybody else knows devices by their interface (src/device). The doctor and a benchmark's key say what hardware is here.
BACKEND_USERS = ("src/backends/", "src/api/", "src/doctor/", "src/benchmark/model_benchmark.cpp", "src/cli/probe_main.cpp")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]', re.MULTILINE)

# What may be called only in the places given (prefixes of paths).
ONLY_IN = [
    (re.compile(r"\bgetenv\s*\("), ("src/base/environment.cpp", "tests/"), "read variables through base/environment.h"),
    (re.compile(r"\bstd::(cout|cerr|clog)\b|\bv?f?printf\s*\(|\bf?puts\s*\(|\bfmt::print(ln)?\s*\("), ("src/cli/", "tests/", "examples/", "benchmarks/", "src/engines/aten/test_data/", "src/engines/aten/module/chain_benchmark.cpp", "src/kernels/gpu/cuda_norm_benchmark.cpp"),
     "only src/cli prints; log through base/log.h"),
    (re.compile(r"(?<![\w.>])(?:std::|::)?(abort|_?exit|quick_exit|terminate)\s*\("), ("tests/",), "a library does not end the process"),
    # topology_compile.cpp is cross-compiled by itself, without our libraries.
    (re.compile(r"\bdlopen\s*\("), ("src/base/dynamic_library.cpp", "src/engines/xla/pjrt/topology_compile.cpp", "tests/"), "open libraries through base/dynamic_library.h"),
]
FORBIDDEN_WORDS = re.compile(r"(^|_)(manager|helper|utils|common|misc|new|advanced)(_|\.|$)")


def read_table():
    text = TABLE.read_text()
    layers = {}
    for name, layer in re.findall(r'^\s*"([\w/]+) +(\d+)"', text, re.MULTILINE):
        layers[name] = int(layer)
    folders = re.search(r"set\(KPT_TORCH_FOLDERS ([^)]+)\)", text).group(1).split()
    return layers, tuple(folder if folder.endswith(".h") else folder + "/" for folder in folders)


def module_of(path, layers):
    """The row of the table that a path relative to src/ belongs to."""
    parts = Path(path).parts
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if len(parts) > depth and name in layers:
            return name
    return None


def check_includes(name, text, layers, torch_folders):
    own = module_of(name[4:], layers) if name.startswith("src/") else None
    is_test = name.endswith("_test.cpp")
    for _, header in INCLUDE.findall(text):
        if TORCH_HEADER.match(header) and not name.startswith(torch_folders):
            yield f"{name}: includes {header}; libtorch headers are only for {', '.join(torch_folders)}"
        if CUDA_HEADER.match(header) and not name.startswith(VENDOR_FOLDERS):
            yield f"{name}: includes {header}; vendor headers are only for {', '.join(VENDOR_FOLDERS)}"
        if header.startswith("backends/") and name.startswith("src/") and not name.startswith(BACKEND_USERS) and not is_test:
            yield f"{name}: includes {header}; backends are known only to {', '.join(BACKEND_USERS)}"
        other = module_of(header, layers)
        if own is None or other is None or other == own or is_test:
            continue
        if layers[other] >= layers[own]:
            yield f"{name}: {own} (layer {layers[own]}) may not include {header} (layer {layers[other]})"


def check_calls(name, text):
    # A hit inside a string or a comment is not a call.
    bare = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", text, flags=re.DOTALL)
    for pattern, places, advice in ONLY_IN:
        if name.startswith(places) or name.endswith("_test.cpp"):
            continue
        for hit in pattern.finditer(bare):
            yield f"{name}: {hit.group(0).strip()} is not for this place: {advice}"


def main():
    layers, torch_folders = read_table()
    problems = []
    for name in list_files(".h", ".cpp", ".cu", ".cuh"):
        text = (ROOT / name).read_text(encoding="utf-8")
        if name.startswith("src/") and module_of(name[4:], layers) is None:
            problems.append(f"{name}: its folder has no row in {TABLE.relative_to(ROOT)}")
        problems += check_includes(name, text, layers, torch_folders)
        problems += check_calls(name, text)
        if FORBIDDEN_WORDS.search(Path(name).stem):
            problems.append(f"{name}: the file name does not say what is in it")
        if name.endswith(".h") and "#pragma once" not in text:
            problems.append(f"{name}: no #pragma once")
    print("\n".join(problems) if problems else f"layers: {len(layers)} modules, no violation")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
