#!/usr/bin/env python3
"""Tests of compare_models.py with processes that pretend: fresh random times, the seed is printed when one fails."""

import json
import os
import secrets
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent

# Speeds by model: how long a run of the program, the module and ours takes.
PRETENDER = """#!{python}
import json, random, sys
generator = random.Random({seed} + {offset})
times = {times!r}
current = None
for line in sys.stdin:
    words = line.split()
    if words[0] in ("load", "build"):
        name = words[-1].split("/")[-1].removesuffix(".pt2")
        current = times[name].get(words[0] if {offset} == 0 else "ours")
        answer = {{"load_seconds": 0.1, "anonymous_bytes": 10}}
        if current is None:
            answer = {{"error": "cannot be loaded"}}
    else:
        answer = {{"times_ms": [current * generator.uniform(0.995, 1.005) for _ in range(int(words[1]))]}}
    print(json.dumps(answer), flush=True)
"""


def make_entry(name, **changes):
    return {"name": name, "file": f"{name}.pt2", "parameter_bytes": 1000, "stateful_steps": 0,
            "inputs": [{"name": "input_ids"}], **changes}


class CompareModels(unittest.TestCase):
    def setUp(self):
        self.seed = secrets.randbits(30)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compare(self, times, entries):
        """(exit code, output, what stands in the JSON file)."""
        for offset, name in ((0, "eager.py"), (1, "ours")):
            path = self.folder / name
            path.write_text(PRETENDER.format(python=sys.executable, seed=self.seed, offset=offset, times=times))
            path.chmod(0o755)
        (self.folder / "index.json").write_text(
            json.dumps({"models": entries, "torch": "2", "seed": 1, "size": "small"}))
        done = subprocess.run(
            [sys.executable, str(HERE / "compare_models.py"), "--models", str(self.folder), "--ours",
             str(self.folder / "ours"), "--eager", str(self.folder / "eager.py"), "--round-ms", "20", "--threads", "1"],
            capture_output=True, text=True, env=os.environ)
        print_on_failure = f"seed {self.seed}\n{done.stdout}\n{done.stderr}"
        return done.returncode, print_on_failure, json.loads((self.folder / "compare_models.json").read_text())

    def test_the_faster_form_of_eager_counts(self):
        times = {"a": {"load": 2.0, "build": 1.0, "ours": 1.1}, "b": {"load": 1.0, "build": 2.0, "ours": 0.5}}
        code, text, written = self.compare(times, [make_entry("a"), make_entry("b")])
        self.assertEqual(code, 1, text)
        self.assertEqual(written["slower"], ["a"], text)  # 0.91 of the module, though 1.8 of the program
        self.assertEqual([row["against"] for row in written["models"]], ["module", "program"], text)
        self.assertAlmostEqual(written["models"][1]["ratio"][0], 2.0, delta=0.05, msg=text)
        self.assertIn("below 0.98 with their whole interval: a", text)

    def test_all_fast_enough_is_success(self):
        times = {"a": {"load": 1.0, "build": 1.0, "ours": 0.9}}
        code, text, written = self.compare(times, [make_entry("a")])
        self.assertEqual((code, written["slower"], written["failed"]), (0, [], {}), text)

    def test_what_cannot_be_repeated_is_left_out_by_name(self):
        times = {"a": {"load": 1.0, "build": 1.0, "ours": 0.9}, "step": {"load": 1.0, "build": 1.0, "ours": 9.0}}
        entries = [make_entry("a"), make_entry("counter", stateful_steps=8), make_entry("big", parameter_bytes=1 << 60),
                   make_entry("step", stateful_steps=8, inputs=[{"name": "cache_position"}])]
        code, text, written = self.compare(times, entries)
        self.assertEqual(code, 1, text)
        self.assertEqual(written["slower"], ["step"], text)
        self.assertEqual(sorted(written["left_out"]), ["big", "counter"], text)

    def test_a_model_that_fails_is_named_and_the_others_are_measured(self):
        times = {"a": {"load": 1.0, "build": 1.0}, "b": {"load": 1.0, "build": 1.0, "ours": 0.9}}
        code, text, written = self.compare(times, [make_entry("a"), make_entry("b")])
        self.assertEqual(code, 1, text)
        self.assertEqual(written["failed"], {"a": "cannot be loaded"}, text)
        self.assertEqual([row["name"] for row in written["models"]], ["b"], text)


if __name__ == "__main__":
    unittest.main()
