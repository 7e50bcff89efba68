#!/usr/bin/env python3
"""Tests of compare_table.py with fresh random times; the seed is printed when one fails."""

import math
import random
import secrets
import unittest

import compare_table


def make_row(generator, name="m", architecture="bert", factors=None, split=False):
    """Runtimes whose time is eager's divided by a factor, on a machine whose speed wanders."""
    factors = factors or {"eager": 1.0, "compile": 1.2, "onnxruntime": 1.5, "ours_plain": 2.0}
    rounds = [50 * math.exp(generator.gauss(0, 0.3)) for _ in range(15)]  # what the machine does to all alike
    def times(factor):
        return [speed / factor * math.exp(generator.gauss(0, 0.01)) for speed in rounds]
    groups = [{n: times(f) for n, f in factors.items()}]
    if split:
        groups = [{"eager": times(1.0), n: times(f)} for n, f in factors.items() if n != "eager"]
    return {"name": name, "architecture": architecture, "rounds": groups, "absent": {}, "load_s": {},
            "checks": {n: {"error": 1e-7, "cosine": 1.0} for n in factors}}


class CompareTable(unittest.TestCase):
    def setUp(self):
        self.seed = secrets.randbits(32)
        self.generator = random.Random(self.seed)

    def run(self, result=None):
        outcome = super().run(result)
        if result is not None and (result.failures or result.errors):
            print(f"seed {self.seed}")
        return outcome

    def test_interval_has_the_ranks_of_the_sign_test(self):
        for count, rank in ((1, 1), (5, 1), (6, 1), (10, 2), (15, 4), (20, 6), (30, 10)):
            values = list(range(1, count + 1))
            self.generator.shuffle(values)
            self.assertEqual(compare_table.order_interval(values), (rank, count + 1 - rank))

    def test_pairing_removes_what_the_machine_does(self):
        row = make_row(self.generator)
        median, low, high = compare_table.ratio(row, "eager", "ours_plain")
        self.assertAlmostEqual(median, 2.0, delta=0.05)
        self.assertLess(high - low, 0.1)
        unpaired = [t for t in row["rounds"][0]["eager"]]
        self.assertGreater(max(unpaired) / min(unpaired), 1.2)

    def test_groups_apart_are_compared_through_eager(self):
        row = make_row(self.generator, split=True)
        median, low, high = compare_table.ratio(row, "onnxruntime", "ours_plain")
        self.assertAlmostEqual(median, 2.0 / 1.5, delta=0.08)
        self.assertLess(low, median)
        self.assertGreater(high, median)

    def test_best_peer_must_be_right(self):
        row = make_row(self.generator)
        self.assertEqual(compare_table.best_of(row, compare_table.FP32_PEERS), "onnxruntime")
        row["checks"]["onnxruntime"]["error"] = 0.5
        self.assertEqual(compare_table.best_of(row, compare_table.FP32_PEERS), "compile")

    def test_lost_rows_are_those_whose_interval_lies_below_one(self):
        rows = [make_row(self.generator, "slow", factors={"eager": 1.0, "ours_plain": 0.8}),
                make_row(self.generator, "even", factors={"eager": 1.0, "ours_plain": 1.0}),
                make_row(self.generator, "fast", factors={"eager": 1.0, "ours_plain": 1.3})]
        verdict = compare_table.judge(rows, "ours_plain", ("eager",))
        self.assertEqual(verdict["models"], 3)
        self.assertAlmostEqual(verdict["mean"], (0.8 * 1.0 * 1.3) ** (1 / 3), delta=0.03)
        lost = [text.split()[0] for text in verdict["lost"]]
        self.assertIn("slow", lost)
        self.assertNotIn("fast", lost)

    def test_wrong_outputs_get_no_ratio(self):
        row = make_row(self.generator)
        row["checks"]["ours_plain"]["error"] = 0.1
        row["absent"]["openvino"] = "does not load"
        machine = {"cpu": "cpu", "threads": 2, "versions": {}, "date": "", "rounds": 15, "load_average": 0.0}
        text, summary = compare_table.full_table({"machine": machine, "models": [row, {"name": "x", "failed": "why"}]})
        self.assertIn("(wrong)", text)
        self.assertIn("OpenVINO: does not load", text)
        self.assertIn("x: why", text)
        self.assertEqual(summary, [])

    def test_every_line_of_a_table_has_the_same_number_of_cells(self):
        rows = [make_row(self.generator, f"m{index}") for index in range(3)]
        runtimes = compare_table.runtimes_of(rows)
        for make in (compare_table.time_table, compare_table.ratio_table, compare_table.error_table):
            self.assertEqual(len({line.count("|") for line in make(rows, runtimes)}), 1)

    def test_start_up_compares_with_a_warm_cache(self):
        row = {"name": "m", "absent": {}, "first_ms": {"compile": 9000, "ours_plain": 500, "eager": 5000},
               "times_ms": {"compile": [4000, 4100, 4050], "ours_plain": [400, 405, 410], "eager": [3000] * 3}}
        text, summary = compare_table.startup_table({"machine": {"cpu": "c", "threads": 2}, "models": [row]})
        self.assertAlmostEqual(summary[0]["compile_over_ours"], 4050 / 405)
        self.assertIn("9000", text)


if __name__ == "__main__":
    unittest.main()
