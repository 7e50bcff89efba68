#!/usr/bin/env python3
"""Writes linear.pt2 anew, as torch.export.save() makes it; needs torch. The folder inside has the file's name."""
import os

import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        return self.linear(x)


torch.manual_seed(0)
program = torch.export.export(Model().eval(), (torch.ones(1, 3),))
for node in program.graph.nodes:
    node.meta.pop("stack_trace", None)  # names folders of the machine
torch.export.save(program, os.path.join(os.path.dirname(os.path.abspath(__file__)), "linear.pt2"))
