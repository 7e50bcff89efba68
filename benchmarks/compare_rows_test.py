#!/usr/bin/env python3
"""Tests of what compare.py is made of beside its tables: rows, earlier figures, the machine, bounded processes; and of
how jax_equivalents.py finds its weights."""

import json
import math
import re
import sys
import tempfile
import time
import unittest
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import compare_rows
import earlier_peers
import jax_equivalents
import jax_models
import machine_description
import runtime_process


class Rows(unittest.TestCase):
    def test_a_row_names_a_model_and_a_shape(self):
        self.assertEqual(compare_rows.export_pattern("bert:32x128", "bfloat16"), "bert_bf16_static:32x128")
        self.assertEqual(compare_rows.entry_name("bert:32x128", "bfloat16"), "bert_bf16_static_32x128")
        self.assertEqual(compare_rows.entry_name("vit:1", "float32"), "vit_fp32_static_1")

    def test_models_are_named_with_and_without_their_kind(self):
        for pattern, expected in (("qwen2", "qwen2_bf16_static"), ("minilm*", "minilm*bf16_static"),
                                  ("llama_bf16_static", "llama_bf16_static"), ("*", "*bf16_static")):
            self.assertEqual(compare_rows.static_pattern(pattern, "bfloat16"), expected)

    def test_the_first_extent_is_the_batch(self):
        self.assertEqual([compare_rows.batch_of(row) for row in ("bert:32x128", "vit:1")], [32, 1])

    def test_gpu_stands_for_all_and_nothing_is_measured_twice(self):
        self.assertEqual(compare_rows.expand_rows(["gpu"]), compare_rows.GPU_ROWS)
        self.assertEqual(compare_rows.expand_rows(["vit:1", "gpu"])[0], "vit:1")
        self.assertEqual(len(compare_rows.expand_rows(["vit:1", "gpu"])), len(compare_rows.GPU_ROWS))
        self.assertEqual(compare_rows.expand_rows([]), ())

    def test_what_is_no_row_is_refused(self):
        for text in ("bert", "bert:", ":1x2", "bert:0x128", "bert:1x", "bert:1X128", "bert:-1", "bert:axb", "GPU"):
            with self.assertRaisesRegex(ValueError, "no row"):
                compare_rows.expand_rows([text])


def make_machine(**changes):
    machine = {"cpu": "c", "threads": 16, "device": "nvidia:0", "versions": {"torch": "2.11.0", "transformers": "5"},
               "gpu": {"name": "H200", "driver": "580.1", "sm_mhz": "345"}}
    return {**machine, **changes}


class EarlierPeers(unittest.TestCase):
    OURS = ("ours_plain", "ours_balanced")

    def take(self, runtimes, **changes):
        known = {"name": "m", "rounds": [{"eager": [9.0, 9.0], "compile": [3.0, 1.0, 2.0], "ours_plain": [1.0]}],
                 "absent": {"compile_best": "no answer within 9 s"}, "checks": {"compile": {"error": 0.1, "cosine": 1.0}},
                 "load_s": {"compile": 30.0}, "first_answer_s": {"compile": 40.0}, **changes}
        row = {"name": "m", "rounds": [], "absent": {}, "checks": {}, "load_s": {}}
        return earlier_peers.take({"models": [known]}, "old.json", row, runtimes, self.OURS), row

    def test_the_machine_and_what_peers_are_made_of_must_be_the_same(self):
        self.assertEqual(earlier_peers.find_differences(make_machine(), make_machine(rounds=3)), [])
        hot = make_machine(gpu={"name": "H200", "driver": "580.1", "sm_mhz": "1980"})
        self.assertEqual(earlier_peers.find_differences(make_machine(), hot), [])
        for changes, word in (({"versions": {"torch": "2.15.0"}}, "its torch is 2.11.0, here it is 2.15.0"),
                              ({"versions": {"torch": "2.11.0", "transformers": "6"}}, "its transformers is 5"),
                              ({"versions": {"torch": "2.11.0", "transformers": "5", "triton": "3"}}, "its triton is None"),
                              ({"gpu": {"name": "H100", "driver": "580.1"}}, "GPU"), ({"gpu": None}, "GPU"),
                              ({"gpu": {"name": "H200", "driver": "590.0"}}, "driver"), ({"threads": 2}, "threads"),
                              ({"device": "cpu"}, "device")):
            found = earlier_peers.find_differences(make_machine(), make_machine(**changes))
            self.assertIn(word, " ".join(found))

    def test_peers_are_taken_and_eager_and_ours_are_measured(self):
        left, row = self.take(("eager", "compile", "aoti", "ours_plain", "ours_balanced"))
        self.assertEqual(left, ("eager", "aoti", "ours_plain", "ours_balanced"))
        self.assertEqual(row["taken"], {"compile": {"median_ms": 2.0, "source": "old.json"}})
        self.assertEqual(row["checks"], {"compile": {"error": 0.1, "cosine": 1.0}})
        self.assertEqual((row["load_s"], row["first_answer_s"]), ({"compile": 30.0}, {"compile": 40.0}))

    def test_a_peer_that_failed_is_not_tried_again(self):
        left, row = self.take(("eager", "compile_best"))
        self.assertEqual(left, ("eager",))
        self.assertEqual(row["absent"], {"compile_best": "no answer within 9 s (in old.json)"})

    def test_figures_that_were_taken_before_can_be_taken_again(self):
        _, row = self.take(("eager", "aoti"), taken={"aoti": {"median_ms": 4.0, "source": "older.json"}})
        self.assertEqual(row["taken"]["aoti"]["median_ms"], 4.0)

    def test_a_row_that_the_file_lacks_is_measured_in_full(self):
        for changes in ({"name": "other"}, {"failed": "why"}):
            left, row = self.take(("eager", "compile"), **changes)
            self.assertEqual(left, ("eager", "compile"))
            self.assertNotIn("taken", row)


class PublishedPeers(unittest.TestCase):
    """docs/measurements/nvidia-h200-peers.json, for compare.py --peers-from."""

    PEERS = ("eager", "compile", "compile_graphs", "compile_best", "aoti")

    def setUp(self):
        self.tree = Path(__file__).resolve().parent.parent
        self.known = json.loads((self.tree / "docs/measurements/nvidia-h200-peers.json").read_text())

    def test_every_row_is_taken_and_eager_is_measured_again(self):
        names = [compare_rows.entry_name(row, "bfloat16") for row in compare_rows.GPU_ROWS]
        self.assertEqual([row["name"] for row in self.known["models"]], names)
        for name in names:
            row = {"name": name, "absent": {}, "checks": {}}
            left = earlier_peers.take(self.known, "peers.json", row, self.PEERS + ("ours_balanced",), ("ours_balanced",))
            self.assertIn("compile_graphs", row["taken"])
            self.assertEqual({"eager", "ours_balanced"} & set(left), {"eager", "ours_balanced"})
            self.assertEqual(set(left) | set(row["taken"]) | set(row["absent"]), {*self.PEERS, "ours_balanced"})

    def test_every_figure_stands_in_the_page_that_it_names(self):
        for row in self.known["models"]:
            figures = [(f"{taken['median_ms']:.2f}", taken["source"]) for taken in row["taken"].values()]
            figures += [(f"{check['error']:.1e}".replace("e-0", "e-"), check["source"]) for check in row["checks"].values()]
            for figure, source in figures:
                page, _, commit = source.partition(", ")
                text = (self.tree / page).read_text().replace("e-0", "e-")
                self.assertRegex(text, rf"(?<![\d.]){re.escape(figure)}(?![\d])", f"{row['name']}: {source}")
                self.assertIn(commit, text)

    def test_it_is_of_the_machine_that_the_pages_tell(self):
        machine = self.known["machine"]
        here = {**machine, "versions": {"torch": "2.11.0", "triton": "3.6.0", "transformers": "5.17.0", "openvino": None}}
        self.assertEqual(earlier_peers.find_differences(machine, here), [])
        for torch in ("2.11.0+cu126", "2.12.0"):
            here["versions"]["torch"] = torch
            self.assertEqual(earlier_peers.find_differences(machine, here),
                             [f"its torch is 2.11.0+cu130, here it is {torch}"])


class Machine(unittest.TestCase):
    def test_fields_that_the_driver_does_not_know_are_absent(self):
        gpu = machine_description.parse_gpu("NVIDIA H200, 580.1, 345, 3201, 1980, 30, 75.23, [N/A], P0")
        found = [gpu[name] for name in ("name", "driver", "sm_mhz", "most_watt")]
        self.assertEqual(found, ["NVIDIA H200", "580.1", "345", None])
        self.assertIsNone(machine_description.parse_gpu("No devices were found"))
        self.assertIsNone(machine_description.read_gpu("cpu"))


    def test_a_kpt_that_does_not_end_is_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            kpt = Path(folder) / "bin" / "kpt"
            kpt.parent.mkdir()
            kpt.write_text("#!/bin/sh\nsleep 60\n")
            kpt.chmod(0o755)
            with self.assertRaisesRegex(SystemExit, "^compare: .* did not end within 0.3 s$"):
                machine_description.ask_kpt(SimpleNamespace(build=Path(folder), limit_s=0.3), "--version")


class JaxWeights(unittest.TestCase):
    """Versions of transformers name the parts of ViT differently."""

    NAMES = {
        "vit.encoder.layer.{}.": ("attention.attention.query", "attention.attention.key", "attention.attention.value",
                                  "attention.output.dense", "intermediate.dense", "output.dense", "layernorm_before",
                                  "layernorm_after"),
        "vit.layers.{}.": ("attention.q_proj", "attention.k_proj", "attention.v_proj", "attention.o_proj",
                           "layernorm_before", "layernorm_after", "mlp.fc1", "mlp.fc2"),
        "encoder.layer.{}.": ("attention.self.query", "attention.self.key", "attention.self.value",
                              "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense",
                              "output.dense", "output.LayerNorm")}

    def make_names(self, prefix):
        return [f"{prefix.format(index)}{part}.{kind}" for index in (0, 10, 2) for part in self.NAMES[prefix]
                for kind in ("weight", "bias")]

    def test_parts_are_found_under_all_names(self):
        for prefix in self.NAMES:
            names = self.make_names(prefix)
            found = jax_models.arrange({name: name for name in [*names, "vit.layernorm.weight"]})
            self.assertEqual(found["rest"], {"layernorm.weight": "vit.layernorm.weight"})
            self.assertEqual(len(found["layers"]), 3)
            self.assertIn(".10.", found["layers"][2]["query"]["weight"])
            used = [name for layer in found["layers"] for part in layer.values() for name in part.values()]
            self.assertEqual(sorted(used), sorted(names))

    def test_a_part_that_is_missing_or_unknown_is_said(self):
        names = self.make_names("vit.layers.{}.")
        with self.assertRaisesRegex(ValueError, "layer 2 lacks key"):
            jax_models.arrange({name: name for name in names if name != "vit.layers.10.attention.k_proj.bias"})
        with self.assertRaisesRegex(ValueError, "is not known"):
            jax_models.arrange({"vit.layers.0.gate.weight": 1})

    @unittest.skipUnless(find_spec("torch"), "needs torch")
    def test_what_is_not_finite_never_agrees(self):
        import torch
        good = torch.tensor([1.0, 2.0], dtype=torch.float64)
        self.assertEqual(jax_equivalents.difference([good, good], [good, good]), 0.0)
        for value in (math.nan, math.inf, -math.inf):
            bad = torch.tensor([1.0, value], dtype=torch.float64)
            for pair in ((bad, good), (good, bad), (bad, bad)):
                self.assertEqual(jax_equivalents.difference([good, pair[0]], [good, pair[1]]), math.inf)

    def test_table_says_when_answers_differ(self):
        row = {"name": "m", "times_ms": {"ours": [1.0] * 6, "jax": [2.0] * 6}, "load_s": {"ours": 1.0, "jax": 2.0},
               "errors": {"ours": 1e-6, "jax": 1e-6}, "difference": 1e-6}
        text = jax_equivalents.make_table([row, {**row, "difference": 0.1}, {"name": "x", "failed": "why"}], "xla:cuda")
        self.assertIn("2.00 (2.00–2.00)", text)
        self.assertEqual(text.count("(differs)"), 1)
        self.assertEqual(len({line.count("|") for line in text.splitlines()}), 1)


OBEDIENT = """
import json, sys, time
for line in sys.stdin:
    word = line.split()[0]
    if word == "die": sys.exit(3)
    if word == "sleep": time.sleep(float(line.split()[1]))
    if word == "babble": print("hello", flush=True)
    else: print(json.dumps({"error": "no"} if word == "fail" else {"said": word}), flush=True)
"""


class Processes(unittest.TestCase):
    def start(self, limit_s):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        server = runtime_process.Server([sys.executable, "-c", OBEDIENT], None, Path(folder.name) / "log.txt", limit_s)
        self.addCleanup(server.stop)
        return server

    def test_an_answer_that_does_not_come_is_not_awaited(self):
        server = self.start(0.3)
        with self.assertRaisesRegex(runtime_process.Lost, "within 0.3 s"):
            server.ask("sleep 60")

    def test_errors_and_ends_lose_the_runtime(self):
        server = self.start(60)
        with self.assertRaisesRegex(runtime_process.Lost, "^no$"):
            server.ask("fail")
        with self.assertRaisesRegex(runtime_process.Lost, "else than JSON: hello"):
            server.ask("babble")
        self.assertEqual(server.ask("hello"), {"said": "hello"})
        with self.assertRaisesRegex(runtime_process.Lost, "status 3"):
            server.ask("die")

    def test_several_work_at_the_same_time(self):
        servers = [self.start(60) for _ in range(4)]
        for server in servers:
            server.ask("ready")
        begin = time.monotonic()
        for server in servers:
            server.send("sleep 2")
        for server in servers:
            server.receive()
        self.assertLess(time.monotonic() - begin, 7)

    def test_start_up_and_programs_are_bounded(self):
        sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
        late = ["sh", "-c", "echo 1; sleep 60"]
        for call in (runtime_process.run_bounded, runtime_process.first_answer_ms):
            with self.assertRaisesRegex(runtime_process.Lost, "within 0.5 s"):
                call(sleep, None, 0.5)
        with self.assertRaisesRegex(runtime_process.Lost, "did not end"):
            runtime_process.first_answer_ms(late, None, 3)
        self.assertGreater(runtime_process.first_answer_ms([sys.executable, "-c", "print(1)"], None, 60), 0)
        with self.assertRaisesRegex(runtime_process.Lost, "status 4"):
            runtime_process.first_answer_ms([sys.executable, "-c", "print(1); exit(4)"], None, 60)


if __name__ == "__main__":
    unittest.main()
