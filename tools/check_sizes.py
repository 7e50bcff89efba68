#!/usr/bin/env python3
"""Holds files and functions to the size limits. An exception needs a reason, here."""

import re
import statistics
import sys
from pathlib import Path

from source_files import ROOT, list_files

LIMITS = {".h": 300, ".cpp": 600, ".cu": 600, ".cuh": 300, ".py": 600, ".sh": 200}
FUNCTION_LIMIT = 70
MEDIAN_LIMIT = 150
ROOT_CMAKE_LIMIT = 150

# path: reason
EXCEPTIONS = {}


def long_functions(text):
    """Bodies of functions, by the closing brace at the indentation of the signature (the formatter guarantees it)."""
    lines = text.split("\n")
    for opening, line in enumerate(lines):
        if not re.search(r"\)( const)?( noexcept)?( override)?( &&?)? \{$", line):
            continue
        start = opening
        while start > 0 and re.match(r" {4}\s*\S", lines[start]):  # a signature over several lines
            start -= 1
        if re.match(r"\s*(if|for|while|switch|namespace|else|do|try|catch|\})\b", lines[start]):
            continue
        indent = re.match(r" *", lines[start]).group(0)
        for end in range(opening + 1, len(lines)):
            if lines[end].startswith(indent + "}"):
                if end - opening - 1 > FUNCTION_LIMIT:
                    yield start + 1, end - opening - 1
                break


def main():
    problems = []
    sizes = []
    for name in list_files(*LIMITS):
        suffix = Path(name).suffix
        if name in EXCEPTIONS:
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        lines = text.count("\n")
        if suffix in (".h", ".cpp") and not name.endswith("_test.cpp"):
            sizes.append(lines)
        if lines > LIMITS[suffix]:
            problems.append(f"{name}: {lines} lines, the limit is {LIMITS[suffix]}")
        if suffix in (".cpp", ".h", ".cu"):
            problems += [f"{name}:{line}: a function of {length} lines, the limit is {FUNCTION_LIMIT}" for line, length in long_functions(text)]
    for name in EXCEPTIONS:
        if not (ROOT / name).exists():
            problems.append(f"tools/check_sizes.py: the exception {name} no longer exists")
    if (ROOT / "CMakeLists.txt").read_text().count("\n") > ROOT_CMAKE_LIMIT:
        problems.append(f"CMakeLists.txt: more than {ROOT_CMAKE_LIMIT} lines")
    median = statistics.median(sizes) if sizes else 0
    if median > MEDIAN_LIMIT:
        problems.append(f"the median file has {median:.0f} lines, the limit is {MEDIAN_LIMIT}")
    print("\n".join(problems) if problems else f"sizes: {len(sizes)} files, median {median:.0f} lines, no violation")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
