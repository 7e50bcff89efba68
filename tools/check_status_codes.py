#!/usr/bin/env python3
"""Fails if a code of include/kpt/status.h is raised by nobody.

A code is raised where code outside the tests names it other than to compare with it. Those that nobody raises are
listed below, with why; one that is raised after all must leave the list.
"""
import argparse
import pathlib
import re
import sys

SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
ROW = re.compile(r"^\s*X\((k\w+),\s*\"\w+\",\s*(\w+),\s*(\w+),\s*(?:\\\s*)?\"([^\"]*)\"\)", re.MULTILINE)
NAMED = re.compile(r"\bStatusCode::(k\w+)")
COMPARED = re.compile(r"(?:[!=]=|\bcase)\s*(?:\w+::)*StatusCode::k\w+|\bStatusCode::k\w+\s*[!=]=")

# For catching all below them.
ROOTS = {"kMemory", "kOptimization"}
# Of features that are not there yet; the table says so.
NOT_YET = {"kDistributed": "training on several devices", "kCheckpoint": "training"}
NOT_YET_WORDS = "not raised yet"


def is_test(path):
    return "_test" in path.stem or path.stem.startswith("test_") or "testing" in path.as_posix()


def find_raised(root):
    raised = set()
    for folder in ("src", "bindings"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or is_test(path.relative_to(root)):
                continue
            text = COMMENT.sub(" ", path.read_text(encoding="utf-8"))
            raised.update(NAMED.findall(COMPARED.sub(" ", text)))
    return raised


def find_problems(rows, raised):
    codes = {row[0] for row in rows}
    parents = {row[2] for row in rows}
    for listed in sorted((ROOTS | set(NOT_YET)) - codes):
        yield f"{listed} is listed in tools/check_status_codes.py and is no code"
    for code, exception, _, meaning in rows:
        listed = code in ROOTS or code in NOT_YET
        if code in raised and listed:
            yield f"{code} is raised now; take it out of tools/check_status_codes.py"
        if code not in raised and not listed:
            yield f"nobody raises {code}; return it where it is the exact code, or remove the row"
        if code in ROOTS and exception not in parents:
            yield f"{code} is listed as a root, and no exception stands below {exception}"
        if (code in NOT_YET) != meaning.endswith(NOT_YET_WORDS):
            yield f"the meaning of {code} must end with '{NOT_YET_WORDS}' just when it is listed as such"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    header = root / "include/kpt/status.h"
    text = header.read_text(encoding="utf-8")
    rows = ROW.findall(text)
    if not rows or len(rows) != len(re.findall(r"^\s*X\(k", text, re.MULTILINE)):
        print(f"{header}: the table cannot be read; has its form changed?")
        return 1
    raised = find_raised(root)
    problems = list(find_problems(rows, raised))
    for problem in problems:
        print(f"include/kpt/status.h: {problem}")
    print(f"status codes: {len(rows)} in the table, {len(raised & {row[0] for row in rows})} raised")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
