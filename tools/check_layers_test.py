#!/usr/bin/env python3
"""Shows that check_layers.py finds what it must find: each case breaks one thing in a small tree. The table is ours."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
TABLE = TOOLS.parent / "cmake" / "kpt_layers.cmake"


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        for file in (TOOLS / "check_layers.py", TOOLS / "source_files.py", TABLE):
            copy = self.root / file.parent.name / file.name
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(file, copy)

    def tearDown(self):
        self.folder.cleanup()

    def check(self, files):
        """`files`: path → text, on top of a sound tree."""
        sound = {"src/base/text.h": "#pragma once\n", "src/device/pci.h": '#pragma once\n#include "base/text.h"\n'}
        for path, text in {**sound, **files}.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        # Without git the files are listed as they lie; a repository around the temporary folder is not theirs.
        environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(self.root.parent)}
        outcome = subprocess.run([sys.executable, str(self.root / "tools/check_layers.py")], capture_output=True,
                                 text=True, check=False, env=environment)
        self.assertEqual(outcome.stderr, "")
        for path in files:
            (self.root / path).unlink()
        return outcome.returncode, outcome.stdout

    def expect_problem(self, words, path, text):
        code, output = self.check({path: text})
        self.assertEqual(code, 1, output)
        self.assertIn(words, output)
        self.assertIn(path, output)
        self.assertEqual(len(output.splitlines()), 1, output)

    def expect_fine(self, path, text):
        code, output = self.check({path: text})
        self.assertEqual(code, 0, output)

    def test_a_sound_tree_passes(self):
        code, output = self.check({})
        self.assertEqual(code, 0, output)
        self.assertIn("no violation", output)

    def test_includes_that_go_up_or_sideways(self):
        self.expect_problem("base (layer 0) may not include device/pci.h (layer 2)", "src/base/a.cpp",
                            '#include "device/pci.h"\n')
        self.expect_problem("device (layer 2) may not include tensor_files/npy.h (layer 2)", "src/device/a.cpp",
                            '#  include "tensor_files/npy.h"\n')
        self.expect_problem("engines/aten (layer 4) may not include runtime/a.h (layer 6)", "src/engines/aten/a.h",
                            '#pragma once\n#include "runtime/a.h"\n')
        self.expect_fine("src/base/a_test.cpp", '#include "device/pci.h"\n')
        self.expect_fine("src/runtime/a.cpp", '#include "runtime/b.h"\n#include "engines/aten/a.h"\n')

    def test_backends_are_known_to_few(self):
        self.expect_problem("backends are known only to", "src/optimize/a.cpp", '#include "backends/cpu/isa.h"\n')
        self.expect_fine("src/doctor/a.cpp", '#include "backends/cpu/isa.h"\n')

    def test_headers_of_libtorch_and_of_vendors(self):
        self.expect_problem("libtorch headers are only for", "src/runtime/a.cpp", "#include <ATen/ATen.h>\n")
        self.expect_fine("src/engines/aten/module/a.cpp", "#include <torch/torch.h>\n")
        self.expect_problem("vendor headers are only for", "src/engines/aten/a.cpp", "#include <cuda_runtime.h>\n")
        self.expect_fine("src/engines/aten/cuda/a.cpp", "#include <cuda_runtime.h>\n")

    def test_calls_that_belong_to_one_place(self):
        for call, words, place in (('std::getenv("X");', "base/environment.h", "src/base/environment.cpp"),
                                   ("std::cerr << 1;", "only src/cli prints", "src/cli/a.cpp"),
                                   ("std::printf(text);", "only src/cli prints", "src/cli/a.cpp"),
                                   ("std::abort();", "a library does not end the process", "tests/a.cpp"),
                                   ("dlopen(name, 0);", "base/dynamic_library.h", "src/base/dynamic_library.cpp")):
            self.expect_problem(words, "src/device/a.cpp", f"void f() {{ {call} }}\n")
            self.expect_fine(place, f"void f() {{ {call} }}\n")
        self.expect_fine("src/device/a.cpp", '// std::abort();\nconst char* kText = "std::abort();";\n')

    def test_files_that_are_not_as_they_should_be(self):
        self.expect_problem("has no row in cmake/kpt_layers.cmake", "src/extras/a.cpp", "")
        self.expect_problem("no #pragma once", "src/base/a.h", "")
        self.expect_problem("the file name does not say what is in it", "src/base/text_utils.cpp", "")


if __name__ == "__main__":
    unittest.main()
