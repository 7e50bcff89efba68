#!/usr/bin/env python3
"""Shows that check_sizes.py finds what it must find: each case is one line too long in a small tree."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent


def function(lines, name="f", signature="void {}() {{"):
    return signature.format(name) + "\n" + "  x();\n" * lines + "}\n"


class CheckSizes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        self.write("CMakeLists.txt", "\n" * 150)
        for name in ("check_sizes.py", "source_files.py"):
            self.write(f"tools/{name}", (TOOLS / name).read_text(encoding="utf-8"))

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def check(self):
        # Without git the files are listed as they lie; a repository around the temporary folder is not theirs.
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.root.parent)}
        outcome = subprocess.run([sys.executable, str(self.root / "tools/check_sizes.py")], capture_output=True,
                                 text=True, check=False, env=environment)
        self.assertEqual(outcome.stderr, "")
        shutil.rmtree(self.root / "src", ignore_errors=True)
        return outcome.returncode, outcome.stdout

    def expect_fine(self):
        code, output = self.check()
        self.assertEqual(code, 0, output)
        self.assertIn("no violation", output)

    def expect_problem(self, words):
        code, output = self.check()
        self.assertEqual(code, 1, output)
        self.assertIn(words, output)
        self.assertEqual(len(output.splitlines()), 1, output)

    def test_files(self):
        for suffix, limit in ((".h", 300), (".cpp", 600), (".cu", 600), (".cuh", 300), (".py", 600), (".sh", 200)):
            for more in (0, 1):
                for i in range(3):  # the median is theirs
                    self.write(f"src/short{i}.cpp", "\n")
                self.write("src/a" + suffix, "\n" * (limit + more))
                if more:
                    self.expect_problem(f"src/a{suffix}: {limit + 1} lines, the limit is {limit}")
                else:
                    self.expect_fine()

    def test_functions(self):
        for signature in ("void {}() {{", "Result<int> C::{}(int a,\n               int b) const {{"):
            self.write("src/a.cpp", "\n" + function(70, signature=signature))
            self.expect_fine()
            self.write("src/a.cpp", "\n" + function(71, signature=signature))
            self.expect_problem("src/a.cpp:2: a function of 71 lines, the limit is 70")

    def test_the_median(self):
        for lines in (150, 151):
            for i, more in enumerate((-1, 0, 1)):
                self.write(f"src/a{i}.cpp", "\n" * (lines + more))
            self.write("src/a_test.cpp", "\n" * 500)  # tests do not count
            if lines == 150:
                self.expect_fine()
            else:
                self.expect_problem("the median file has 151 lines, the limit is 150")

    def test_the_root_of_the_build(self):
        self.write("CMakeLists.txt", "\n" * 151)
        self.expect_problem("CMakeLists.txt: more than 150 lines")

    def test_exceptions(self):
        script = (TOOLS / "check_sizes.py").read_text(encoding="utf-8")
        self.assertIn("EXCEPTIONS = {}\n", script)
        self.write("tools/check_sizes.py", script.replace("EXCEPTIONS = {}", 'EXCEPTIONS = {"src/a.cpp": "a table"}'))
        self.write("src/a.cpp", "\n" * 601)
        self.expect_fine()
        self.expect_problem("the exception src/a.cpp no longer exists")


if __name__ == "__main__":
    unittest.main()
