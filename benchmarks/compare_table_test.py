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
        self.assertEqual([(found["runtime"], found["mean"], found["models"], found["rows"]) for found in summary],
                         [("ours_plain", None, 0, 2)])
        self.assertIn("geometric mean – over 0 of 2 models, rows lost: 2; m – (wrong); x – (failed)", text)

    def test_every_line_of_a_table_has_the_same_number_of_cells(self):
        rows = [make_row(self.generator, f"m{index}") for index in range(3)]
        runtimes = compare_table.runtimes_of(rows)
        for make in (compare_table.time_table, compare_table.ratio_table, compare_table.error_table):
            self.assertEqual(len({line.count("|") for line in make(rows, runtimes)}), 1)

    def make_gpu_results(self, rows):
        gpu = {"name": "GPU", "driver": "1.2", "sm_mhz": "345", "memory_mhz": "6", "most_sm_mhz": "1980", "celsius": "30",
               "watt": "70", "most_watt": "700", "state": "P0"}
        return {"machine": {"cpu": "cpu", "threads": 2, "versions": {"torch": "2.11"}, "date": "", "rounds": 15,
                            "load_average": 0.0, "device": "nvidia:0", "gpu": gpu},
                "models": [{**row, "gpu": {**gpu, "sm_mhz": "1755"}} for row in rows]}

    def test_goals_on_a_gpu_are_those_of_rows_and_of_their_mean(self):
        fast = {"eager": 1.0, "compile_graphs": 5.0, "ours_balanced": 7.0}
        rows = [{**make_row(self.generator, "one", factors=fast), "batch": 1},
                {**make_row(self.generator, "many", factors={**fast, "ours_balanced": 3.0}), "batch": 32},
                {**make_row(self.generator, "late", factors={"eager": 1.0, "ours_balanced": 2.0}), "batch": 1}]
        text, summary = compare_table.full_table(self.make_gpu_results(rows))
        each, single = summary[-2:]
        self.assertEqual([name.split()[0] for name in each["below"]], ["many"], text)
        self.assertEqual((each["rows"], each["least"]), (3, 0.97))
        self.assertEqual([name.split()[0] for name in single["below"]], ["late"], text)
        self.assertEqual((single["rows"], single["least"]), (2, 4.0))
        best = next(found for found in summary if found.get("against") == "the best peer")
        self.assertEqual(best["goal"], 1.2)
        self.assertAlmostEqual(best["mean"], (7 / 5 * 3 / 5 * 2) ** (1 / 3), delta=0.05)
        for word in ("driver 1.2", "345 MHz of 1980", "one 1755 MHz", "missed (2 of 3 rows)", "missed (1 of 2 rows)"):
            self.assertIn(word, text)

    def test_goals_that_hold_are_met(self):
        rows = [{**make_row(self.generator, factors={"eager": 1.0, "compile": 2.0, "ours_balanced": 6.0}), "batch": 1}]
        text, summary = compare_table.full_table(self.make_gpu_results(rows))
        self.assertIn("met (1 of 1 rows)", text)
        self.assertEqual([found["below"] for found in summary[-2:]], [[], []])

    def test_rows_without_a_figure_of_balanced_miss_the_goals(self):
        def row(name, **changes):
            made = make_row(self.generator, name, factors={"eager": 1.0, "compile": 2.0, "ours_balanced": 6.0})
            return {**made, "batch": 1, **changes}
        rows = [row("good"), row("absent"), row("wrong"), {"name": "failed", "batch": 1, "failed": "why"},
                {"name": "unknown", "batch": None, "failed": "why"}, {"name": "many", "batch": 8, "failed": "why"}]
        del rows[1]["rounds"][0]["ours_balanced"], rows[1]["checks"]["ours_balanced"]
        rows[1]["absent"]["ours_balanced"] = "refused by the gate"
        rows[2]["checks"]["ours_balanced"]["cosine"] = 0.5
        text, summary = compare_table.full_table(self.make_gpu_results(rows))
        each, single = summary[-2:]
        words = ["absent – (not measured)", "wrong – (wrong)", "failed – (failed)", "unknown – (failed)"]
        self.assertEqual((single["below"], single["rows"]), (words, 5))
        self.assertEqual((each["below"], each["rows"]), ([*words, "many – (failed)"], 6))
        self.assertIn("each row at least 0.97: missed (1 of 6 rows)", text)
        self.assertNotIn(": met", text)
        best = next(found for found in summary if found.get("against") == "the best peer")
        self.assertEqual((best["models"], best["rows"], best["lost"]), (1, 6, [*words, "many – (failed)"]))
        self.assertIn("over 1 of 6 models, rows lost: 5", text)

    def test_a_runtime_that_nobody_asked_for_has_no_goal(self):
        rows = [make_row(self.generator, factors={"eager": 1.0, "ours_plain": 2.0}), {"name": "x", "failed": "why"}]
        _, summary = compare_table.full_table(self.make_gpu_results(rows))
        self.assertEqual([found["runtime"] for found in summary], ["ours_plain"])

    def test_a_row_that_failed_has_the_kind_that_its_name_says(self):
        self.assertTrue(compare_table.convolutional({"name": "resnet50_fp32_static", "failed": "why"}))
        self.assertFalse(compare_table.convolutional({"name": "bert_fp32_static", "failed": "why"}))

    def test_figures_of_an_earlier_run_are_marked_and_have_no_interval(self):
        row = make_row(self.generator, factors={"eager": 1.0, "ours_balanced": 8.0})
        ours = compare_table.median_of(row, "ours_balanced")
        row["taken"] = {"compile_best": {"median_ms": 2 * ours, "source": "old.json"}}
        row["checks"]["compile_best"] = {"error": 1e-7, "cosine": 1.0}
        self.assertEqual(compare_table.best_of(row, compare_table.FP32_PEERS), "compile_best")
        value = compare_table.ratio(row, "compile_best", "ours_balanced")
        self.assertEqual(value[1:], (None, None))
        self.assertAlmostEqual(value[0], 2.0)
        self.assertIsNotNone(compare_table.ratio(row, "eager", "ours_balanced")[1])
        text, _ = compare_table.full_table(self.make_gpu_results([row]))
        self.assertIn(f"{2 * ours:.2f}*", text)
        self.assertIn("taken from old.json", text)
        verdict = compare_table.judge([row], "ours_balanced", ("compile_best",))
        self.assertEqual(verdict["lost"], [])
        row["taken"]["compile_best"]["median_ms"] = 0.5 * ours
        verdict = compare_table.judge([row], "ours_balanced", ("compile_best",))
        self.assertIn("0.50*", verdict["lost"][0])

    def test_a_taken_figure_counts_without_its_error_and_by_its_error_alone(self):
        row = make_row(self.generator, factors={"eager": 1.0, "ours_balanced": 3.0})
        row.update(dtype="bfloat16", taken={"compile_best": {"median_ms": 0.1, "source": "old.json"}})
        self.assertEqual(compare_table.best_of(row, ("eager", "compile_best")), "compile_best")
        row["checks"]["compile_best"] = {"error": 1e-2}
        self.assertEqual(compare_table.best_of(row, ("eager", "compile_best")), "compile_best")
        row["checks"]["compile_best"] = {"error": 0.9}
        self.assertEqual(compare_table.best_of(row, ("eager", "compile_best")), "eager")
        del row["checks"]["eager"]
        self.assertFalse(compare_table.is_right(row, "eager"))

    def test_seconds_to_the_first_answer_stand_beside_those_of_the_peers(self):
        row = make_row(self.generator, factors={"eager": 1.0, "aoti": 2.0, "ours_balanced": 3.0})
        row.update(first_answer_s={"eager": 12.34, "ours_balanced": 0.78}, package={"package_load_seconds": 0.56})
        text, _ = compare_table.full_table(self.make_gpu_results([row]))
        self.assertIn("| m | 12.3 | – | 0.8 | 0.6 |", text)

    def test_rows_of_several_files_are_joined(self):
        first, second = (self.make_gpu_results([make_row(self.generator, name) for name in names])
                         for names in (("a", "b"), ("b", "c")))
        joined = compare_table.join_results([first, second])
        self.assertEqual([row["name"] for row in joined["models"]], ["a", "b", "c"])
        self.assertIs(joined["models"][1], second["models"][0])

    def test_start_up_on_a_gpu_has_a_goal_in_seconds(self):
        def row(name, ours):
            return {"name": name, "absent": {}, "first_ms": {"aoti": 9e4, "ours_balanced": 900},
                    "times_ms": {"aoti": [7000.0] * 3, "ours_balanced": [ours] * 3}}
        results = self.make_gpu_results([])
        lacking = row("plain", 900.0)
        lacking["times_ms"]["ours_plain"] = lacking["times_ms"].pop("ours_balanced")
        lacking["first_ms"]["ours_plain"] = 900
        results["models"] = [row("quick", 900.0), row("slow", 2400.0), {"name": "x", "failed": "why"}, lacking]
        text, summary = compare_table.startup_table(results)
        self.assertIn("at most 2 s: missed (1 of 4 rows); slow 2.40 s; x – (failed); plain – (not measured)", text)
        self.assertIn("(least and most; first start of all)", text)
        self.assertIn("AOTInductor", text)
        self.assertEqual([found["ours_s"] for found in summary], [0.9, 2.4, 0.9])
        table = [line for line in text.splitlines() if line.startswith("|")]
        self.assertEqual(len({line.count("|") for line in table}), 1, text)

    def test_start_up_compares_with_a_warm_cache(self):
        row = {"name": "m", "absent": {}, "first_ms": {"compile": 9000, "ours_plain": 500, "eager": 5000},
               "times_ms": {"compile": [4000, 4100, 4050], "ours_plain": [400, 405, 410], "eager": [3000] * 3}}
        text, summary = compare_table.startup_table({"machine": {"cpu": "c", "threads": 2}, "models": [row]})
        self.assertAlmostEqual(summary[0]["compile_over_ours"], 4050 / 405)
        self.assertIn("9000", text)


if __name__ == "__main__":
    unittest.main()
