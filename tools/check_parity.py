#!/usr/bin/env python3
"""Checks docs/parity.md against the tree.

One line per problem on standard output, exit 1 if there is any. A table row reads

    | id | feature | where | shown by | verified |

and is in order when
  * it has exactly five cells and its id occurs once;
  * every path in back quotes under "where" and "shown by" exists;
  * every test in back quotes under "shown by" exists: `Suite.Name` or `Suite.*` as a GoogleTest case in the sources,
    `ctest NAME` as a test registered in a CMake file, `make TARGET` in the Makefile, `kpt VERB …` as a command file;
  * what "feature" and "verified" have in back quotes exists where it has one of these forms, or that of an option
    (`group.name` of a group that there is) or of something in the headers (`kpt::Name`); other words are free there;
  * every link of any cell leads to a file;
  * "verified" begins with one of the allowed words, and then there is at least one path and one piece of evidence, or
    with "not yet: " and the name of a piece of work that the page's own list defines and does not call done.
"""

import argparse
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROW_ID = re.compile(r"[A-Z]+-[A-Z0-9]+")
# An unescaped pipe; table cells write a literal one as \|.
CELL_SEPARATOR = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
WORK = re.compile(r"^- \*\*(?P<name>[^*]+)\*\*(?P<done> \(done\))?:")
NOT_YET = re.compile(r"not yet: (?P<work>[^;(]+?)\s*(?:\(.*\))?$")

GTEST_CASE = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
CTEST_NAME = re.compile(r"add_test\(\s*NAME\s+(\"[^\"]+\"|\S+)")
MAKE_TARGET = re.compile(r"^([A-Za-z][\w.-]*)\s*:(?!=)", re.MULTILINE)
OPTION_ROW = re.compile(r"^\s*X\(k\w+,[^\"]*\"([\w.]+)\"", re.MULTILINE)
OPTION = re.compile(r"([a-z]\w*)\.\w+")
TEST = re.compile(r"\w+\.(\w+|\*)")
CMAKE_VARIABLE = re.compile(r"\$\{\w+\}")

SOURCE_FOLDERS = ("src", "tests", "tools", "examples", "benchmarks", "bindings")
FILE_SUFFIX = re.compile(r"\.(h|cpp|cu|py|sh|md|in|cmake|txt|json|yaml|yml|toml)$")
ROOT_FILES = {"Makefile", "LICENSE", "CMakePresets.json"}
VERIFIED_WORDS = ("run on hardware", "executed by a real compiler on another device", "compiled only", "unit test",
                  "end-to-end test", "lint")


@dataclass
class Row:
    line: int
    cells: list[str]

    @property
    def row_id(self) -> str:
        return self.cells[0]


class Tree:
    """What the table may refer to."""

    def __init__(self, root: Path):
        self.root = root
        self.gtest_cases: set[str] = set()
        self.cmake_words: set[str] = set()
        ctest_patterns: list[str] = []
        for folder in SOURCE_FOLDERS:
            for file in sorted((root / folder).rglob("*")):
                if file.suffix in (".cpp", ".cu"):
                    for suite, name in GTEST_CASE.findall(file.read_text(encoding="utf-8")):
                        self.gtest_cases.add(f"{suite}.{name}")
        for file in self.cmake_files():
            text = file.read_text(encoding="utf-8")
            ctest_patterns += [name.strip('"') for name in CTEST_NAME.findall(text)]
            self.cmake_words.update(re.findall(r"[\w.-]+", text))
        self.ctest_regexes = [self.to_regex(pattern) for pattern in ctest_patterns]
        makefile = root / "Makefile"
        text = makefile.read_text(encoding="utf-8") if makefile.exists() else ""
        self.make_targets = set(MAKE_TARGET.findall(text))
        options = root / "src/config/options.h"
        self.options = set(OPTION_ROW.findall(options.read_text(encoding="utf-8"))) if options.exists() else set()
        self.option_groups = {name.split(".")[0] for name in self.options}
        self.public_words = {word for header in sorted((root / "include/kpt").glob("*.h"))
                             for word in re.findall(r"\w+", header.read_text(encoding="utf-8"))}

    def cmake_files(self) -> list[Path]:
        files = [self.root / "CMakeLists.txt"]
        for folder in (*SOURCE_FOLDERS, "cmake"):
            files += sorted((self.root / folder).rglob("CMakeLists.txt"))
            files += sorted((self.root / folder).rglob("*.cmake"))
        return [file for file in files if file.exists()]

    @staticmethod
    def to_regex(pattern: str) -> re.Pattern[str]:
        """`fuzz.${program}` becomes a pattern whose groups are the variable parts."""
        parts = [re.escape(part) for part in CMAKE_VARIABLE.split(pattern)]
        return re.compile(r"([\w.-]+)".join(parts))

    def has_ctest(self, name: str) -> bool:
        # The value of a variable must stand somewhere in the CMake files; otherwise any name would fit "${name}".
        for regex in self.ctest_regexes:
            match = regex.fullmatch(name)
            if match and all(group in self.cmake_words for group in match.groups()):
                return True
        return False

    def has_gtest(self, name: str) -> bool:
        if name.endswith(".*"):
            return any(case.startswith(name[:-1]) for case in self.gtest_cases)
        return name in self.gtest_cases

    def has_verb(self, verb: str) -> bool:
        if verb.startswith("-"):
            return (self.root / "src/cli/main.cpp").exists()
        return (self.root / f"src/cli/commands/{verb}_command.cpp").exists()


def looks_like_path(text: str) -> bool:
    if " " in text or "<" in text or text.startswith("-"):
        return False
    return text in ROOT_FILES or bool(FILE_SUFFIX.search(text)) or ("/" in text and not text.startswith("/"))


def check_evidence(tree: Tree, text: str) -> tuple[bool, str | None]:
    """(is this a piece of evidence, what is wrong with it)."""
    if text.startswith("make "):
        target = text.split()[1]
        return True, None if target in tree.make_targets else f"the Makefile has no target '{target}'"
    if text.startswith("ctest "):
        name = text.split()[1]
        return True, None if tree.has_ctest(name) else f"no CMake file registers the test '{name}'"
    if text.startswith("kpt "):
        verb = text.split()[1]
        return True, None if tree.has_verb(verb) else f"there is no command '{verb}' in src/cli/commands"
    if looks_like_path(text):
        return True, None if (tree.root / text).exists() else f"path '{text}' does not exist"
    if TEST.fullmatch(text):
        return True, None if tree.has_gtest(text) else f"no source file has the test '{text}'"
    return False, f"'{text}' is neither a path, a test, `ctest …`, `make …` nor `kpt …`"


def check_name(tree: Tree, text: str) -> str | None:
    """What is wrong with a name in the prose of a row; nothing of words that name nothing here."""
    if name := re.match(r"kpt::(\w+)", text):
        return None if name[1] in tree.public_words else f"no header of include/kpt has '{name[1]}'"
    option = text.split("=")[0]
    if (group := OPTION.fullmatch(option)) and group[1] in tree.option_groups:
        return None if option in tree.options else f"there is no option '{option}'"
    first = text.split()[0]
    if text.startswith(("make ", "ctest ", "kpt ")) or (TEST.fullmatch(text) and text[0].isupper()):
        return check_evidence(tree, text)[1]
    return check_evidence(tree, first)[1] if looks_like_path(first) else None


def check_row(tree: Tree, row: Row, works: dict[str, bool], folder: Path) -> list[str]:
    """The problems of a row; links start at `folder`, the page's."""
    if len(row.cells) != 5:
        return [f"{len(row.cells)} cells instead of 5"]
    problems: list[str] = []
    _, feature, where, shown_by, verified = row.cells
    if not feature:
        problems.append("the feature is empty")
    paths = [text for text in CODE.findall(where) if looks_like_path(text)]
    problems += [f"path '{text}' does not exist" for text in paths if not (tree.root / text).exists()]
    evidence = 0
    for text in CODE.findall(shown_by):
        is_evidence, problem = check_evidence(tree, text)
        evidence += is_evidence
        if problem:
            problems.append(problem)

    for text in CODE.findall(feature) + CODE.findall(verified):
        if problem := check_name(tree, text):
            problems.append(problem)
    targets = [target.split("#")[0] for cell in row.cells for target in LINK.findall(cell) if "://" not in target]
    problems += [f"the link to '{target}' leads nowhere" for target in targets if not (folder / target).exists()]

    not_yet = NOT_YET.search(verified)
    if not_yet and not_yet["work"] not in works:
        problems.append(f"'{not_yet['work']}' is not in the page's list of works")
    elif not_yet and works[not_yet["work"]]:
        problems.append(f"'{not_yet['work']}' is done, so nothing of it is 'not yet'")
    if verified.startswith("not yet"):
        if not not_yet:
            problems.append("'not yet' names no work; write 'not yet: <work>'")
    elif not verified.startswith(VERIFIED_WORDS):
        problems.append("neither evidence nor 'not yet': verified begins with none of: " + ", ".join(VERIFIED_WORDS))
    elif not paths or not evidence:
        problems.append("called verified, but names " + ("no evidence" if paths else "no path in the tree"))
    return problems


def read_page(page: Path) -> tuple[list[Row], dict[str, bool]]:
    """The rows, and for each work whether it is done."""
    rows: list[Row] = []
    works: dict[str, bool] = {}
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if work := WORK.match(line):
            works[work["name"]] = bool(work["done"])
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in CELL_SEPARATOR.split(line.strip())[1:-1]]
        if cells and ROW_ID.fullmatch(cells[0]):
            rows.append(Row(number, cells))
        elif cells and cells[0] != "id" and not set(cells[0]) <= set("-:"):
            rows.append(Row(number, ["?"]))  # a row that would otherwise escape all checks
    return rows, works


def print_summary(rows: list[Row]) -> None:
    done = [row for row in rows if len(row.cells) == 5 and not row.cells[4].startswith("not yet")]
    partly = [row for row in done if "not yet" in row.cells[4]]
    print(f"{len(rows)} rows: {len(done) - len(partly)} done, {len(partly)} in part, {len(rows) - len(done)} not yet")
    left = Counter(match["work"] for row in rows if (match := NOT_YET.search(row.cells[4])))
    print("left: " + ", ".join(f"{work} {count}" for work, count in left.most_common()))


def main() -> int:
    parser = argparse.ArgumentParser(description="checks docs/parity.md against the tree")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the repository")
    parser.add_argument("--page", type=Path, help="the page (default: docs/parity.md of the repository)")
    arguments = parser.parse_args()
    page = arguments.page or arguments.root / "docs/parity.md"
    if not page.exists():
        print(f"{page}: missing")
        return 1
    rows, works = read_page(page)
    tree = Tree(arguments.root)
    problems: list[str] = []
    first_line: dict[str, int] = {}
    for row in rows:
        where = f"{page.name}:{row.line}: {row.row_id}"
        if row.row_id == "?":
            problems.append(f"{where}: the first cell is not a row id such as CFG-03")
            continue
        if row.row_id in first_line:
            problems.append(f"{where}: this id stands already in line {first_line[row.row_id]}")
        first_line.setdefault(row.row_id, row.line)
        problems += [f"{where}: {problem}" for problem in check_row(tree, row, works, page.parent)]
    if not rows:
        problems.append(f"{page.name}: no table rows found")
    for problem in problems:
        print(problem)
    if not problems:
        print_summary(rows)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
