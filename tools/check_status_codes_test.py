#!/usr/bin/env python3
"""Shows that check_status_codes.py finds what it must find: each case breaks one thing in a small tree."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "check_status_codes.py"
TABLE = """#define KPT_STATUS_CODES(X)                                            \\
  X(kIo, "io", IoError, Error, "reading or writing failed")            \\
  X(kMemory, "memory", MemoryError, Error, "any failure")              \\
  X(kOutOfMemory, "out_of_memory", OutOfMemoryError, MemoryError,      \\
    "not enough memory")                                               \\
  X(kOptimization, "optimization", OptimizationError, Error, "any")    \\
  X(kCache, "cache", CacheError, OptimizationError, "no cache")        \\
  X(kDistributed, "distributed", DistributedError, Error, "apart; not raised yet") \\
  X(kCheckpoint, "checkpoint", CheckpointError, Error, "lost; not raised yet")
"""
CODE = """Status a() { return {StatusCode::kIo, "x"}; }
Status b() { return Status(kpt::StatusCode::kOutOfMemory, "x"); }
StatusCode c(int error) { return error == 2 ? StatusCode::kCache : StatusCode::kIo; }
"""


class CheckStatusCodes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def check(self, table=TABLE, code=CODE, **more):
        self.write("include/kpt/status.h", table)
        self.write("src/base/a.cpp", code)
        for name, text in more.items():
            self.write(f"src/base/{name}.cpp", text)
        outcome = subprocess.run([sys.executable, str(SCRIPT), "--root", str(self.root)], capture_output=True,
                                 text=True, check=False)
        self.assertEqual(outcome.stderr, "")
        return outcome.returncode, outcome.stdout

    def expect_problem(self, text, **changes):
        code, output = self.check(**changes)
        self.assertEqual(code, 1, output)
        self.assertIn(text, output)
        self.assertEqual(len(output.splitlines()), 2, output)

    def test_a_sound_tree_passes(self):
        code, output = self.check()
        self.assertEqual(code, 0, output)
        self.assertIn("7 in the table, 3 raised", output)

    def test_a_code_that_nobody_names(self):
        self.expect_problem("nobody raises kCache", code=CODE.replace("kCache", "kIo"))

    def test_comparing_is_not_raising(self):
        for use in ("bool d(Status s) { return s.code() == StatusCode::kCache; }",
                    "bool d(Status s) { return kpt::StatusCode::kCache != s.code(); }",
                    "int d(StatusCode s) { switch (s) { case StatusCode::kCache: return 1; } }",
                    "// returns StatusCode::kCache"):
            self.expect_problem("nobody raises kCache", code=CODE.replace("kCache", "kIo") + use + "\n")

    def test_tests_do_not_raise(self):
        for name in ("b_test", "test_b", "b_test_device", "b_testing"):
            self.expect_problem("nobody raises kCache", code=CODE.replace("kCache", "kIo"),
                                **{name: "Status d() { return {StatusCode::kCache, \"x\"}; }\n"})
            (self.root / f"src/base/{name}.cpp").unlink()

    def test_an_exception_that_is_raised(self):
        for code in ("kMemory", "kDistributed"):
            self.expect_problem(f"{code} is raised now",
                                code=CODE + f"Status d() {{ return {{StatusCode::{code}, \"x\"}}; }}\n")

    def test_a_root_without_children(self):
        self.expect_problem("no exception stands below MemoryError",
                            table=TABLE.replace("OutOfMemoryError, MemoryError,", "OutOfMemoryError, Error,      "))

    def test_what_is_not_raised_yet_says_so(self):
        self.expect_problem("the meaning of kCheckpoint must end", table=TABLE.replace("lost; not raised yet", "lost"))
        self.expect_problem("the meaning of kIo must end", table=TABLE.replace("writing failed", "not raised yet"))

    def test_a_listed_code_that_is_gone(self):
        table = "".join(line for line in TABLE.splitlines(keepends=True) if "kDistributed" not in line)
        self.expect_problem("kDistributed is listed in tools/check_status_codes.py and is no code", table=table)

    def test_a_table_of_another_form(self):
        code, output = self.check(table=TABLE.replace('"no cache"', "kNoCache"))
        self.assertEqual(code, 1)
        self.assertIn("the table cannot be read", output)


if __name__ == "__main__":
    unittest.main()
