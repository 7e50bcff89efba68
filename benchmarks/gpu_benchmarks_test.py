#!/usr/bin/env python3
"""Tests of what fp8_stack.py and gpu_norms.py do without a GPU."""

import unittest
from importlib.util import find_spec

import fp8_stack
import gpu_norms


class Fp8Stack(unittest.TestCase):
    def test_passes_are_timed_on_the_tokens_that_are_measured(self):
        command = fp8_stack.optimize_command("kpt", "stack.pt2", "aggressive", "nvidia:0", "s7", "out.kpt")
        self.assertEqual(command[command.index("--size") + 1], "s7=8192")
        self.assertEqual(command[command.index("--draws") + 1], "1")

    def test_weights_stand_beside_what_is_in_use(self):
        row = fp8_stack.format_row("balanced", 10.0, 7e12, {"weights_bytes": 881e6, "allocated_bytes": 914e6}, 882e6)
        self.assertEqual(row, "| balanced | 10.000 | 700 | 881 | 914 | 882 |")
        row = fp8_stack.format_row("balanced", 10.0, 7e12, {"weights_bytes": 881e6, "allocated_bytes": None}, 882e6)
        self.assertIn("| 881 | – | 882 |", row)


@unittest.skipUnless(find_spec("torch"), "needs torch")
class Norms(unittest.TestCase):
    ROWS, WIDTH = 5, 24

    def setUp(self):
        import torch
        self.torch = torch
        torch.manual_seed(20261117)
        self.norms = gpu_norms.Norms(self.ROWS, self.WIDTH, device="cpu")

    def test_every_norm_has_forward_and_backward_of_the_right_sizes(self):
        for name in gpu_norms.Norms.PARTS:
            function = self.norms.function(name)
            results = self.norms.forward(function)(1)
            self.assertEqual(len(results), 2 if "residual" in name else 1)
            self.assertFalse(any(result.requires_grad for result in results))
            backward = self.norms.backward(name, function)
            for index in (0, 1, 0):  # a graph that is not kept fails the second time
                gradients = backward(index)
                self.assertEqual([tuple(gradient.shape) for gradient in gradients],
                                 [(self.ROWS, self.WIDTH)] + [(self.WIDTH,)] * (2 if "layer" in name else 1))

    def test_backward_with_a_residual_takes_the_gradient_of_the_sum(self):
        torch = self.torch
        for name in ("layer_norm", "rms_norm"):
            residual_name = f"{name}_residual"
            with_sum = self.norms.backward(residual_name, self.norms.function(residual_name))(0)[0]
            total = (self.norms.inputs[0] + self.norms.residuals[0]).detach().requires_grad_()
            (result,) = self.norms.function(name)(total, None)
            (alone,) = torch.autograd.grad(result, [total], self.norms.residuals[0])
            torch.testing.assert_close(with_sum, alone + self.norms.residuals[0])


if __name__ == "__main__":
    unittest.main()
