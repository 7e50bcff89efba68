#!/usr/bin/env python3
"""Shows when amd_emulate.py fails: a wrong result, and a kernel that no case runs.

    tools/amd_emulate_test.py [kpt_emulation_feed]

With the program: that no kernel of a target is without a case. Nothing is compiled or emulated.
"""

import contextlib
import io
import queue
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: there is no numpy here")
    sys.exit(0)
import amd_emulate

FEED = sys.argv.pop(1) if len(sys.argv) == 2 else None


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


@unittest.skipUnless(FEED, "there is no kpt_emulation_feed")
class Cases(unittest.TestCase):
    def test_every_kernel_of_a_target_has_a_case_and_every_case_a_kernel(self):
        with tempfile.TemporaryDirectory() as folder:
            feed = amd_emulate.Feed(FEED, folder)
            for target in amd_emulate.ARCHITECTURES:
                with self.subTest(target):
                    with_case = {case.kernel for case in amd_emulate.cases_of(target)}
                    self.assertEqual(with_case, set(feed.kernels(target)))
            feed.process.stdin.close()
            feed.process.stdout.close()
            self.assertEqual(feed.process.wait(), 0)


if __name__ == "__main__":
    unittest.main()
