#!/usr/bin/env python3
"""Shows when amd_emulate.py fails: a wrong result, and a kernel that no case runs."""

import contextlib
import io
import queue
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: there is no numpy here")
    sys.exit(0)
import amd_emulate


class ExitCode(unittest.TestCase):
    def table(self, statuses, known, only_some=False):
        rows = {}
        for kernel, status in statuses.items():
            rows[kernel] = amd_emulate.Row()
            rows[kernel].add(status, 0.5, "reason", 0.1)
        with contextlib.redirect_stdout(io.StringIO()) as text:
            counts = amd_emulate.print_table("gfx942", rows, known, only_some)
        return counts, text.getvalue()

    def test_all_right(self):
        counts, _ = self.table({"a": "right", "b": "right"}, ["a", "b"])
        self.assertEqual(counts, (0, 0))
        self.assertEqual(amd_emulate.exit_code(*counts, allow_missing=False), 0)

    def test_a_wrong_result_fails_always(self):
        counts, text = self.table({"a": "wrong", "b": "right"}, ["a", "b"])
        self.assertEqual(counts, (1, 0))
        self.assertIn("**wrong**", text)
        self.assertEqual(amd_emulate.exit_code(*counts, allow_missing=True), 1)

    def test_a_kernel_without_a_case_fails_unless_allowed(self):
        counts, text = self.table({"a": "right"}, ["a", "new"])
        self.assertEqual(counts, (0, 1))
        self.assertIn("Without a case: new.", text)
        self.assertEqual(amd_emulate.exit_code(*counts, allow_missing=False), 1)
        self.assertEqual(amd_emulate.exit_code(*counts, allow_missing=True), 0)

    def test_a_process_that_dies_before_its_first_case_is_wrong(self):
        class Dead:
            exitcode = 1

            def is_alive(self):
                return False

        rows, known = amd_emulate.follow(Dead(), queue.Queue(), "gfx942")
        with contextlib.redirect_stdout(io.StringIO()) as text:
            counts = amd_emulate.print_table("gfx942", rows, known, True)
        self.assertEqual(counts, (1, 0))
        self.assertIn("the process ended with 1", text.getvalue())

    def test_who_asks_for_some_kernels_gets_those(self):
        self.assertEqual(self.table({"a": "right"}, ["a", "new"], only_some=True)[0], (0, 0))


if __name__ == "__main__":
    unittest.main()
