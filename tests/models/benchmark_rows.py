"""Rows of benchmarks/compare.py: full-size models with a chosen shape, and one case with its fp64 reference.

Against what the tests use: outputs of eager are left out, the reference is computed on the GPU where there is one, and
language models give the logits of the last place alone. A decoding step (SEQUENCESxCAPACITY) fills the last place of a
cache that holds random keys and values before it: the position is an input and stays, so every run does the same work
and gives the same answer, however often it is repeated.
"""

import contextlib
import math

import torch
import transformers

import case_files
import references
from model_list import STATE
from own_modules import NextToken


def parse_shape(text):
    """(32, 128) of "32x128"; (32,) of "32"."""
    parts = text.split("x")
    if not all(part.isdecimal() and 0 < int(part) < 1 << 31 for part in parts):
        raise ValueError(f"'{text}' is no shape: expected numbers such as 32 or 32x128")
    return tuple(int(part) for part in parts)


def set_shape(model, shape):
    """Gives the model's extents the numbers of a shape, in their order; those left out stay: 32 is a batch of images."""
    names = [name for name in model.static if name != "position"]
    if len(shape) > len(names):
        raise ValueError(f"{model.name} has the extents {', '.join(names)}: {len(shape)} numbers do not fit")
    model.static.update(zip(names, shape))
    if "position" in model.static:
        model.static["position"] = model.static["capacity"] - 1


def find_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def place(module, device):
    """Moves a module; its cache makes tensors of its own on the device that it remembers."""
    module.to(device)
    for layer in getattr(getattr(module, "cache", None), "layers", []):
        layer.device = torch.device(device)
    return module


def build(model, dtype, seed):
    """On the host, with weights drawn on the GPU where there is one; weights get no other values before those."""
    skip = getattr(getattr(transformers, "initialization", None), "no_init_weights", contextlib.nullcontext)
    with skip(), find_device():
        module = model.build(dtype, seed)
    return place(NextToken(module) if hasattr(module, "lm_head") else module, "cpu")


@torch.no_grad()
def fill_cache(module, generator):
    """Keys and values as if tokens had been there; nothing for a model without a cache."""
    for name, buffer in module.named_buffers():
        if name.rsplit("_", 1)[0] in STATE and buffer.is_floating_point():
            buffer.copy_(torch.randn(buffer.shape, generator=generator) / math.sqrt(2))


def compute_fp64(module, inputs):
    """Outputs by name, on the host. The module is converted in place."""
    device = find_device()
    module = place(module, device).double()
    result = references.run_in_double(module, {name: value.to(device) for name, value in inputs.items()})
    return {name: value.cpu() for name, value in case_files.flatten_outputs(result).items()}
