#!/usr/bin/env python3
"""Fails if an option of src/config/options.h is read by nobody.

An option is read when code outside src/config calls get(options::kHandle), or calls a function of src/config that does
(cache_folder, apply_logging, ...). Tests do not count: they would keep a dead option alive.
"""
import argparse
import pathlib
import re
import sys

SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# A definition at the left margin up to its closing brace at the left margin; clang-format keeps them there.
FUNCTION = re.compile(r"^[A-Za-z][^\n;]*?\b(\w+)\([^;{]*\)[^;{]*\{(.*?)^\}", re.MULTILINE | re.DOTALL)


def read(path):
    return COMMENT.sub(" ", path.read_text(encoding="utf-8"))


def sources(root, folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and not path.stem.endswith("_test"):
                yield path


def reads(handle, text):
    return re.search(rf"\bget\(\s*(?:\w+::)*{handle}\s*\)", text) is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    header = root / "src/config/options.h"
    handles = re.findall(r"^\s*X\((k\w+),", header.read_text(encoding="utf-8"), re.MULTILINE)
    if not handles:
        print(f"{header}: no options found; has the form of the table changed?")
        return 1

    config_folder = root / "src/config"
    outside = "\n".join(read(path) for path in sources(root, ["src", "bindings"]) if config_folder not in path.parents)
    functions = [match.groups() for path in sources(root, ["src/config"]) for match in FUNCTION.finditer(read(path))]

    unread = []
    for handle in handles:
        through = {name for name, body in functions if reads(handle, body)}
        if not reads(handle, outside) and not any(re.search(rf"\b{name}\(", outside) for name in through):
            unread.append(handle)
    for handle in unread:
        print(f"src/config/options.h: nobody reads {handle}; call config.get(options::{handle}) where it takes effect, "
              "or remove the option")
    print(f"options: {len(handles)} declared, {len(handles) - len(unread)} read")
    return 1 if unread else 0


if __name__ == "__main__":
    sys.exit(main())
