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
places = {places!r}  # in the caches of some models: beyond them runs fail
current, left = None, None
for line in sys.stdin:
    words = line.split()
    if words[0] in ("load", "build"):
        name = words[-1].split("/")[-1].removesuffix(".pt2")
        current = times[name].get(words[0] if {offset} == 0 else "ours")
        left = places.get(name)
        answer = {{"load_seconds": 0.1, "anonymous_bytes": 10}}
        if current == "dies":
            sys.exit(3)
        if current is None:
            answer = {{"error": "cannot be loaded"}}
    else:
        answer = {{"times_ms": [current * generator.uniform(0.995, 1.005) for _ in range(int(words[1]))]}}
        for index in range(int(words[1]) if left is not None else 0):
            left = (places[name] if words[2:] and index % int(words[2]) == 0 else left) - 1
            if left < 0:
                answer = {{"error": "the cache is full"}}
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

    def write_index(self, entries):
        (self.folder / "index.json").write_text(
            json.dumps({"models": entries, "torch": "2", "seed": 1, "size": "small"}))

    def compare(self, times, entries, only=("*",), places=None):
        """(exit code, output, what stands in the JSON file)."""
        for offset, name in ((0, "eager.py"), (1, "ours")):
            path = self.folder / name
            path.write_text(PRETENDER.format(python=sys.executable, seed=self.seed, offset=offset, times=times,
                                             places=places or {}))
            path.chmod(0o755)
        self.write_index(entries)
        done = subprocess.run(
            [sys.executable, str(HERE / "compare_models.py"), "--models", str(self.folder), "--ours",
             str(self.folder / "ours"), "--eager", str(self.folder / "eager.py"), "--round-ms", "20", "--threads", "1",
             "--only", *only],
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
        self.assertIn("1 below 0.98: a", text)
        self.assertEqual([len(row["times_ms"]["ours"]) for row in written["models"]], [27, 9], text)  # in doubt, thrice

    def test_all_fast_enough_is_success(self):
        times = {"a": {"load": 1.0, "build": 1.0, "ours": 0.9}}
        code, text, written = self.compare(times, [make_entry("a")])
        self.assertEqual((code, written["slower"], written["failed"]), (0, [], {}), text)

    def test_what_does_not_fit_in_memory_is_left_out_by_name(self):
        times = {"a": {"load": 1.0, "build": 1.0, "ours": 0.9}, "step": {"load": 1.0, "build": 1.0, "ours": 9.0}}
        entries = [make_entry("a"), make_entry("big", parameter_bytes=1 << 60),
                   make_entry("step", stateful_steps=8, inputs=[{"name": "cache_position"}])]
        code, text, written = self.compare(times, entries)
        self.assertEqual(code, 1, text)
        self.assertEqual(written["slower"], ["step"], text)
        self.assertEqual(sorted(written["left_out"]), ["big"], text)

    def test_a_model_whose_runs_fill_its_cache_is_measured_within_its_places(self):
        times = {name: {"load": 1.0, "build": 1.0, "ours": ours} for name, ours in
                 (("counter", 0.5), ("several", 0.5), ("slow", 1.5), ("free", 0.5))}
        entries = [make_entry("counter", stateful_steps=8), make_entry("slow", stateful_steps=8),
                   make_entry("several", stateful_steps=5, ranges={"tokens": [1, 9]}),
                   make_entry("free", stateful_steps=8, inputs=[{"name": "cache_position"}])]
        code, text, written = self.compare(times, entries, places={"counter": 8, "slow": 8, "several": 1})
        self.assertEqual((code, written["left_out"], written["failed"]), (1, {}, {}), text)
        self.assertEqual(written["slower"], ["slow"], text)
        self.assertAlmostEqual(written["models"][0]["ratio"][0], 2.0, delta=0.05, msg=text)
        for name in times:  # with fewer places than the index says the pretenders fail: they count
            _, text, written = self.compare(times, entries, [name], {name: 0})
            self.assertEqual(written["failed"], {name: "the cache is full"}, text)

    def test_a_model_that_fails_is_named_and_the_others_are_measured(self):
        times = {"a": {"load": 1.0, "build": 1.0}, "b": {"load": 1.0, "build": 1.0, "ours": 0.9}}
        code, text, written = self.compare(times, [make_entry("a"), make_entry("b")])
        self.assertEqual(code, 1, text)
        self.assertEqual(written["failed"], {"a": "cannot be loaded"}, text)
        self.assertEqual([row["name"] for row in written["models"]], ["b"], text)

    def test_a_process_that_a_model_ends_is_there_again_for_the_next(self):
        fine = {"load": 1.0, "build": 1.0, "ours": 0.9}
        times = {"a": {**fine, "ours": "dies"}, "b": fine, "c": {**fine, "build": "dies"}, "d": fine}
        code, text, written = self.compare(times, [make_entry(name) for name in times])
        self.assertEqual(code, 1, text)
        self.assertEqual(sorted(written["failed"]), ["a", "c"], text)
        self.assertIn("ended with status 3 at 'load ", written["failed"]["a"], text)
        self.assertEqual([row["name"] for row in written["models"]], ["b", "d"], text)

    def test_a_name_means_the_same_to_the_filter_and_to_the_comparison(self):
        times = {name: {"load": 1.0, "build": 1.0, "ours": 0.9} for name in ("bert_fp32", "bert_bf16", "vit_fp32")}
        entries = [make_entry(name, architecture=name.split("_")[0]) for name in times]
        for only, expected in ((["bert"], ["bert_fp32", "bert_bf16"]), (["*_fp32"], ["bert_fp32", "vit_fp32"]),
                               (["vit", "bert_bf16"], ["bert_bf16", "vit_fp32"])):
            _, text, written = self.compare(times, entries, only)
            self.assertEqual([row["name"] for row in written["models"]], expected, text)
            done = self.choose(*only)
            self.assertEqual(done.stdout.strip(), ":".join(f"Models.{name}" for name in expected), done.stderr)
            self.assertEqual(done.returncode, 0)
        nobody = self.choose("ber")
        self.assertEqual((nobody.returncode, nobody.stdout), (1, ""))
        self.assertIn("is named ber", nobody.stderr)

    def choose(self, *names):
        return subprocess.run([sys.executable, str(HERE / "chosen_models.py"), str(self.folder), *names],
                              capture_output=True, text=True)


if __name__ == "__main__":
    unittest.main()
