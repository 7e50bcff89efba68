#!/usr/bin/env python3
"""Tests of compare.py: what counts as right, which files are made anew, and runtimes that end on the way."""

import math
import os
import subprocess
import sys
import tempfile
import time
import unittest
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import chosen_models
import compare
import peer_models
from runtime_process import Lost

HERE = Path(__file__).resolve().parent


@unittest.skipUnless(find_spec("torch"), "needs torch")
class Outputs(unittest.TestCase):
    def compare(self, given, reference, name="y"):
        import torch
        return compare.compare_outputs({"0": torch.tensor(given)}, {f"case0/fp64/{name}": torch.tensor(reference)}, ["y"])

    def test_error_and_cosine_are_those_against_fp64(self):
        found = self.compare([1.0, 3.0], [1.0, 2.0])
        self.assertAlmostEqual(found["error"], math.sqrt(0.5 / 2.5))
        self.assertAlmostEqual(found["cosine"], 7 / math.sqrt(50))

    def test_what_is_not_finite_on_either_side_loses_the_runtime(self):
        for value in (math.nan, math.inf):
            with self.assertRaisesRegex(Lost, "output y has another size or is not finite"):
                self.compare([1.0, value], [1.0, 2.0])
            with self.assertRaisesRegex(Lost, "fp64 reference of output y is not finite"):
                self.compare([1.0, 2.0], [1.0, value])

    def test_padding_that_the_mask_drops_is_not_judged(self):
        import torch
        cases = {"case0/fp64/y": torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), "case0/fp64/z": torch.tensor([[1.0, 1.0]]),
                 "case0/input/attention_mask": torch.tensor([[1, 0]])}
        given = {"0": torch.tensor([[[1.0, 2.0], [-3.0, 9.0]]]), "1": torch.tensor([[1.0, 1.0]])}
        self.assertEqual(compare.compare_outputs(given, cases, ["y", "z"])["error"], 0)
        given["0"][0, 0, 1] = 3.0
        self.assertAlmostEqual(compare.compare_outputs(given, cases, ["y", "z"])["error"], math.sqrt(1 / 5))

    def test_outputs_without_any_reference_are_not_right(self):
        with self.assertRaisesRegex(Lost, "no output has an fp64 reference"):
            self.compare([1.0], [1.0], name="another")


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_an_artifact_has_the_name_of_what_it_was_made_from(self):
        plain = self.folder / "m.pt2"
        plain.write_text("one")
        os.utime(plain, (10, 10))
        names = {compare.artifact_name("m", "balanced", plain, *facts)
                 for facts in (("cpu", ""), ("nvidia:0", ""), ("cpu", "--draws 1"), ("cpu", "--draws 2"))}
        self.assertEqual(compare.artifact_name("m", "balanced", plain, "cpu", " "),
                         compare.artifact_name("m", "balanced", plain, "cpu", ""))
        os.utime(plain, (11, 11))
        names.add(compare.artifact_name("m", "balanced", plain, "cpu", ""))
        plain.write_text("longer")
        os.utime(plain, (11, 11))
        names.add(compare.artifact_name("m", "balanced", plain, "cpu", ""))
        self.assertEqual(len(names), 6)
        for name in names:
            self.assertRegex(name, r"^m\.balanced\.[0-9a-f]{12}\.kpt$")

    def test_what_peers_make_is_as_new_as_the_export(self):
        source, made = self.folder / "m.pt2", self.folder / "m.onnx"
        source.write_text("")
        self.assertFalse(peer_models.is_newer(made, source))
        made.write_text("")
        for age, expected in ((9, False), (11, True)):
            os.utime(source, (10, 10))
            os.utime(made, (age, age))
            self.assertEqual(peer_models.is_newer(made, source), expected)

    def test_a_package_belongs_to_a_device_and_a_version_of_torch(self):
        self.assertEqual(peer_models.package_name(Path("a/m.pt2"), "cuda:0", "2.11.0+cu128"),
                         "m.cuda_0.torch-2.11.0+cu128.aoti.pt2")

    def test_a_missing_index_is_one_sentence(self):
        with self.assertRaisesRegex(SystemExit, "index.json is missing; "):
            chosen_models.read_index(self.folder)


class Pretender:
    """Answers every run; from its `last` question on it is lost."""

    def __init__(self, last=math.inf):
        self.left, self.stopped = last, False

    def ask(self, line):
        self.left -= 1
        if self.left < 0:
            raise Lost("ended")
        return {"times_ms": [2.0] * int(line.split()[1])}

    def stop(self):
        self.stopped = True


class Turns(unittest.TestCase):
    ARGUMENTS = SimpleNamespace(rounds=6, round_ms=4, pause_ms=0)

    def start(self, **servers):
        starting = compare.Starting({"name": "m"}, self.ARGUMENTS, {"absent": {}})
        starting.servers = servers
        return starting

    def test_a_runtime_that_ends_in_the_rounds_is_left_out_by_name(self):
        for last in (0, 1, 4, 12):
            lost = Pretender(last)
            starting = self.start(eager=Pretender(), compile=lost, ours_plain=Pretender())
            times = compare.take_turns(starting, self.ARGUMENTS)
            self.assertEqual(times, {"eager": [2.0] * 6, "ours_plain": [2.0] * 6})
            self.assertEqual(starting.row["absent"], {"compile": "ended"})
            self.assertEqual((list(starting.servers), lost.stopped), (["eager", "ours_plain"], True))

    def test_who_starts_beside_a_slow_one_is_asked_when_it_is_ready(self):
        class Loading(Pretender):
            def __init__(self, seconds):
                super().__init__()
                self.seconds, self.started = seconds, time.monotonic()

            def receive(self):
                time.sleep(self.seconds)
                return {"load_seconds": self.seconds}

        seconds = {"eager": 0.5, "ours_plain": 0.0}
        arguments = SimpleNamespace(start_together=True, warmup=1)
        row = {"absent": {}, "load_s": {}, "first_answer_s": {}}
        with mock.patch.object(compare, "file_of", lambda *_: "m"), \
             mock.patch.object(compare, "begin", lambda name, *_: Loading(seconds[name])):
            compare.Starting({"name": "m"}, arguments, row).start_all(list(seconds))
        self.assertEqual(row["load_s"], seconds)
        self.assertLess(row["first_answer_s"]["ours_plain"], 0.4)

    def test_without_eager_there_is_no_row(self):
        for last in (0, 4, 12):
            with self.assertRaisesRegex(Lost, "^eager itself does not run: ended$"):
                compare.take_turns(self.start(eager=Pretender(last), compile=Pretender()), self.ARGUMENTS)

    def test_a_runtime_that_ends_in_a_later_start_is_left_out_by_name(self):
        calls = []
        def answer(command, environment, limit_s):
            calls.append(command)
            if "compile" in command and sum("compile" in words for words in calls) == 3:
                raise Lost("ended")
            return 5.0
        arguments = SimpleNamespace(models=Path("m"), build=Path("b"), out=Path("o"), device="cpu", torch_device="cpu",
                                    threads=1, limit_s=1, startup_runs=4, runtimes=("eager", "compile"))
        with mock.patch.object(compare, "first_answer_ms", answer), \
                mock.patch.object(compare, "file_of", lambda *_: Path("f")):
            row = compare.measure_startup({"name": "m", "file": "f", "cases_file": "c"}, arguments)
        self.assertEqual(row["absent"], {"compile": "start 3: ended"})
        self.assertEqual(row["times_ms"], {name: [5.0] * 4 for name in ("eager", "ours_plain", "ours_balanced")})


class Arguments(unittest.TestCase):
    def test_too_few_rounds_for_an_interval_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, str(HERE / "compare.py"), "--out", folder, "--rounds", "5"],
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--rounds must be at least 6", done.stderr)


if __name__ == "__main__":
    unittest.main()
