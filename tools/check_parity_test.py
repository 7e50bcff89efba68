#!/usr/bin/env python3
"""Shows that check_parity.py finds what it must find: each case breaks one thing in a small tree."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "check_parity.py"
HEAD = """# Parity

- **Foundation** (done): a work.
- **Models in**: another.

| id | feature | where | shown by | verified |
|---|---|---|---|---|
"""
GOOD = "| CFG-01 | f | `src/a.cpp` | `Suite.Name`, `make test` | unit test |"


class CheckParity(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.write("src/a.cpp", "TEST(Suite, Name) {}\nTEST_P(Cases, Each) {}\n// NOT_A_TEST(Suite, Other)\n")
        self.write("src/cli/commands/doctor_command.cpp", "")
        self.write("CMakeLists.txt", "add_test(NAME lint.parity COMMAND x)\nkpt_fuzzer(config_fuzzer)\n"
                                     "add_test(NAME fuzz.${program} COMMAND x)\n")
        self.write("Makefile", "VALUE := 1\ntest: all\n")
        self.write("src/config/options.h", '  X(kLogLevel, log::Level, "log.level", "warn", x,  \\\n    "KPT_LOG", "x.y") \\\n')
        self.write("include/kpt/a.h", "class Session;\n")
        self.write("docs/measurements/a.md", "")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def check(self, *rows):
        self.write("docs/parity.md", HEAD + "\n".join(rows) + "\n")
        outcome = subprocess.run([sys.executable, str(SCRIPT), "--root", str(self.root)], capture_output=True, text=True,
                                 check=False)
        self.assertEqual(outcome.stderr, "")
        return outcome.returncode, outcome.stdout

    def expect_problem(self, text, *rows):
        code, output = self.check(*rows)
        self.assertEqual(code, 1, output)
        self.assertIn(text, output)
        self.assertEqual(len(output.splitlines()), 1, output)

    def test_good_rows_pass(self):
        code, output = self.check(
            GOOD,
            "| CFG-02 | f \\| g | — | — | not yet: Models in |",
            "| CFG-03 | f | `src/a.cpp` | `Cases.*`, `ctest fuzz.config_fuzzer` | unit test; rest not yet: Models in (part) |",
            "| CFG-04 | f | `src/a.cpp` | `ctest lint.parity`, `kpt doctor --json`, `src/a.cpp` | run on hardware (H200) |")
        self.assertEqual(code, 0, output)
        self.assertIn("4 rows: 2 done, 1 in part, 1 not yet", output)
        self.assertIn("left: Models in 2", output)

    def test_missing_path(self):
        self.expect_problem("path 'src/b.cpp' does not exist", "| CFG-01 | f | `src/b.cpp` | `Suite.Name` | unit test |")

    def test_missing_path_is_found_in_not_yet_rows_too(self):
        self.expect_problem("path 'src/b.cpp' does not exist", "| CFG-01 | f | `src/b.cpp` | — | not yet: Models in |")

    def test_missing_case(self):
        self.expect_problem("no source file has the test 'Suite.Other'",
                            "| CFG-01 | f | `src/a.cpp` | `Suite.Other` | unit test |")

    def test_missing_ctest(self):
        self.expect_problem("no CMake file registers the test 'fuzz.other'",
                            "| CFG-01 | f | `src/a.cpp` | `ctest fuzz.other` | unit test |")

    def test_missing_make_target(self):
        self.expect_problem("the Makefile has no target 'VALUE'",
                            "| CFG-01 | f | `src/a.cpp` | `make VALUE` | unit test |")

    def test_missing_verb(self):
        self.expect_problem("there is no command 'serve'", "| CFG-01 | f | `src/a.cpp` | `kpt serve` | unit test |")

    def test_names_in_feature_and_verified(self):
        row = "| CFG-01 | {} | `src/a.cpp` | `Suite.Name` | unit test, {} |"
        for name, problem in (("src/b.cpp", "path 'src/b.cpp' does not exist"), ("tools/b.sh all", "path 'tools/b.sh'"),
                              ("Suite.Other", "the test 'Suite.Other'"), ("Other.*", "the test 'Other.*'"),
                              ("make lint", "no target 'lint'"), ("kpt serve --all", "no command 'serve'"),
                              ("ctest fuzz.other", "the test 'fuzz.other'"), ("log.depth=3", "no option 'log.depth'"),
                              ("kpt::Model", "no header of include/kpt has 'Model'")):
            self.expect_problem(problem, row.format(f"`{name}`", ""))
            self.expect_problem(problem, row.format("f", f"`{name}`"))
        free = "`--flag`, `log.level=info`, `aten.add`, `a,b`, `kpt::Session::run`, `kpt doctor`, `Suite.*`, `src/a.cpp x`"
        code, output = self.check(row.format(free, free))
        self.assertEqual(code, 0, output)

    def test_links(self):
        row = "| CFG-01 | {} | `src/a.cpp` {} | `Suite.Name`, {} | unit test {} |"
        good = "[x](measurements/a.md#speed)"
        code, output = self.check(row.format(good, good, good, "[y](https://pytorch.org/x)"))
        self.assertEqual(code, 0, output)
        for place in range(4):
            links = [good] * 4
            links[place] = "[x](measurements/b.md)"
            self.expect_problem("the link to 'measurements/b.md' leads nowhere", row.format(*links))

    def test_repeated_id(self):
        self.expect_problem("this id stands already in line 8", GOOD, GOOD)

    def test_neither_evidence_nor_not_yet(self):
        self.expect_problem("neither evidence nor 'not yet'", "| CFG-01 | f | `src/a.cpp` | `Suite.Name` | |")

    def test_verified_without_evidence(self):
        self.expect_problem("names no evidence", "| CFG-01 | f | `src/a.cpp` | — | unit test |")

    def test_unknown_work(self):
        self.expect_problem("'Some day' is not in the page's list", "| CFG-01 | f | — | — | not yet: Some day |")

    def test_work_that_is_done(self):
        self.expect_problem("'Foundation' is done", "| CFG-01 | f | — | — | not yet: Foundation |")
        self.expect_problem("'Foundation' is done",
                            "| CFG-01 | f | `src/a.cpp` | `Suite.Name` | unit test; rest not yet: Foundation |")

    def test_not_yet_without_a_work(self):
        self.expect_problem("names no work", "| CFG-01 | f | — | — | not yet |")

    def test_wrong_number_of_cells(self):
        self.expect_problem("4 cells instead of 5", "| CFG-01 | f | — | not yet: Models in |")

    def test_row_without_id(self):
        self.expect_problem("not a row id", "| cfg 1 | f | — | — | not yet: Models in |")

    def test_page_without_rows(self):
        self.expect_problem("no table rows found")


if __name__ == "__main__":
    unittest.main()
