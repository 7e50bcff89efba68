#!/usr/bin/env python3
"""Writes the tiny `.pt2` files of the tests, with inputs and expected outputs beside them.

    python make_golden.py --out tests/golden/pt2        # → tests/golden/pt2/<torch version>/<name>.pt2

Needs torch only, 2.9 or newer, so that every version can write its own. The format of `<name>.cases.safetensors` is that
of tests/models/README.md. Weights and inputs come from a fixed seed: the files are golden. PyTorch exports cond_writes
from 2.12 on and while_writes from 2.13 on; the older folders lack them.
"""

import argparse
import copy
import dataclasses
import json
import re
import struct
import traceback
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from pathlib import Path

import sys

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import blas_setting  # noqa: E402, F401  before torch

import torch  # noqa: E402
from torch import nn
from torch.export import Dim, export, save
from torch.utils import _pytree as pytree

Pair = namedtuple("Pair", ["first", "second"])
pytree._register_namedtuple(Pair, serialized_type_name="golden.Pair")


@dataclasses.dataclass
class Scores:
    logits: torch.Tensor
    hidden: torch.Tensor


torch.export.register_dataclass(Scores, serialized_type_name="golden.Scores")


class LinearState(nn.Module):
    """A linear layer, a counter that each call raises in place, a dictionary as result."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("shift", torch.tensor([0.5, -1.0, 2.0]), persistent=False)

    def forward(self, x):
        self.count.add_(1)
        y = self.linear(x) + self.shift
        return {"y": y, "scaled": y * self.count, "rows": x.shape[0]}


class Tied(nn.Module):
    """Embedding and output layer share one storage; a third weight is a transposed view of it."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("turned", self.embed.weight.detach().t())

    def forward(self, ids):
        h = self.embed(ids)
        return self.head(h), h @ self.turned


class ConvNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.drop = nn.Dropout(0.3)

    def forward(self, image):
        return self.drop(torch.relu(self.norm(self.conv(image)))).mean((2, 3))


class Split(nn.Module):
    """Lists and several results, some of which nobody uses."""

    def forward(self, x):
        a, b, _ = x.split([1, 2, 3], dim=-1)
        values, _ = x.topk(2)
        parts = x.chunk(3, dim=-1)
        return a + 1, [b, parts[2]], values, None, 3


class Sizes(nn.Module):
    """Arithmetic on sizes, two symbols, Python's floor division."""

    def forward(self, x, y):
        batch, length = x.shape
        flat = x.reshape(batch * length)
        half = length // 2
        padded = torch.cat([x, y], dim=1)
        return flat * (batch + 1), padded, torch.full((batch, half + 1), 2.5), batch * 2 - half


class Writes(nn.Module):
    """Writes into a buffer and into its own input; exported decomposed, both become results of the graph."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 3))
        self.norm = nn.LayerNorm(3)

    def forward(self, x, position):
        self.cache.index_copy_(0, position, self.norm(x))
        x.mul_(2)
        return self.cache + 1


class GradModes(nn.Module):
    """Regions with gradients switched off and on again."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            y = self.linear(x)
            with torch.enable_grad():
                y = y * 2
            y = y + 1
        return y.sin() + x


class Kwargs(nn.Module):
    """Nested arguments, arguments by name, constants, an integer that varies."""

    def forward(self, x, pair, count, *, scale=2, flag=True, text="a", absent=None):
        y = x * scale + pair["k"][0] - pair["l"][1]
        return Pair(y if flag else x, Scores(y + count, y - 1)), OrderedDict(q=y * 3, r=count * 2)


class Cond(nn.Module):
    def forward(self, x, switch):
        def positive(a):
            return (a.sin(), a + 1)

        def negative(a):
            return (a.cos(), a - 1)

        first, second = torch.cond(switch.sum() > 0, positive, negative, (x,))
        return first + second


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
            z = torch.softmax(y, -1)
            with torch.autocast("cpu", enabled=False):
                w = x @ x.transpose(0, 1)
        return y, z, w


class Numbers(nn.Module):
    """Constants of every kind in arguments, and results of several element types."""

    def __init__(self):
        super().__init__()
        self.register_buffer("big", torch.tensor([2**40, -1]))

    def forward(self, x, ids, mask):
        y = x.masked_fill(mask, float("-inf")).softmax(-1)
        z = torch.where(mask, x.to(torch.float16), 0.5)
        return {
            "y": y,
            "z": z.to(memory_format=torch.contiguous_format),
            "ids": torch.bucketize(ids, self.big) + torch.arange(3, dtype=torch.int32),
            "any": mask.any(),
            "turned": (x * (1 + 2j)).real.to(torch.float64),
            "picked": x[:, ids],
        }


def random(*dims, dtype=torch.float32):
    return torch.randn(*dims).to(dtype)


class Training(nn.Module):
    """Normalisation in training mode: running statistics change though no schema says so."""

    in_training = True

    def __init__(self):
        super().__init__()
        self.batch = nn.BatchNorm1d(3)
        self.instance = nn.InstanceNorm1d(3, track_running_stats=True)

    def forward(self, x):
        y = self.instance(self.batch(x))
        return y, self.batch.running_mean + 0, self.instance.running_var + 0


class CondWrites(nn.Module):
    """A branch that writes a buffer."""

    without_gradients = True  # otherwise the exporter refuses

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x, sign):
        def add(x, total):
            total.add_(x)
            return x * 2

        def keep(x, total):
            return x - total

        y = torch.cond(sign.sum() > 0, add, keep, (x, self.total))
        return y, self.total + 0


class Reshapes(nn.Module):
    """Calls that change what a tensor looks like, on results that a second run makes again."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        a = self.layer(x)
        a.t_()
        b = (x + 1).clone()
        b.unsqueeze_(0)
        c = x.to(torch.float64)
        c.swapaxes_(0, 1)
        d = (x * 2)
        e = d.detach()
        e.unsqueeze_(0)
        return a + 1, b * 2, c * 3, d + 1, e + 1


class LinearForms(nn.Module):
    """linear with a vector for a weight, with biases of more dimensions, and a transposed convolution with relu_."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 4))
        self.vector = nn.Parameter(torch.randn(4))
        self.wide_bias = nn.Parameter(torch.randn(3, 5))
        self.up = nn.ConvTranspose1d(3, 2, 2)

    def forward(self, x):
        f = nn.functional
        a = f.linear(x, self.vector) + 1
        b = f.linear(x, self.weight, self.wide_bias) + 1
        c = f.relu(self.up(x[None]), inplace=True)
        return a, b, c


class WhileLoop(nn.Module):
    """Carries an integer and two tensors, takes weights from outside; may turn no time at all."""

    without_gradients = True

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, count):
        def more(step, y, total):
            return step < count

        def turn(step, y, total):
            y = torch.tanh(self.linear(y))
            return step + 1, y, total + y.sum()

        start = (torch.zeros((), dtype=torch.int64), x, x.new_zeros(()))
        step, y, total = torch.while_loop(more, turn, start)
        return {"step": step, "y": y, "total": total, "next": y + total}


class WhileNested(nn.Module):
    """A loop in a loop, whose first turn has none of the inner one."""

    without_gradients = True

    def forward(self, x, rounds):
        def more(i, y):
            return i < rounds

        def turn(i, y):
            def inner_more(j, z):
                return j < i

            def inner_turn(j, z):
                return j + 1, z * 0.5 + 1

            j, z = torch.while_loop(inner_more, inner_turn, (torch.zeros_like(i), y))
            return i + 1, z + j

        return torch.while_loop(more, turn, (torch.zeros((), dtype=torch.int64), x))


class WhileSizes(nn.Module):
    """Numbers that a loop carries and takes from outside, beside tensors."""

    without_gradients = True

    def forward(self, x):
        rows = x.shape[0]

        def more(left, y):
            return left > 0

        def turn(left, y):
            return left - 2, y / rows + left

        left, y = torch.while_loop(more, turn, (rows, x))
        return y, left + 1


class WhileWrites(nn.Module):
    """A loop that writes a buffer in each of its turns."""

    without_gradients = True

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x, count):
        def more(step, y):
            return step < count

        def turn(step, y):
            self.seen.add_(y)
            return step + 1, y * 2

        step, y = torch.while_loop(more, turn, (torch.zeros((), dtype=torch.int64), x))
        return y, self.seen + 0


class CondSizes(nn.Module):
    """Branches that take a number beside a tensor."""

    def forward(self, x):
        rows = x.shape[0]
        return torch.cond(x.sum() > 0, lambda a: a * rows, lambda a: a - rows, (x,))


def cases():
    """name → module, steps of (args, kwargs), dynamic shapes, whether to decompose."""
    batch = Dim("batch", min=1, max=64)
    rows, columns = Dim("rows", min=2, max=32), Dim("columns", min=2, max=128)
    kwargs = {"scale": 3, "flag": True, "text": "b", "absent": None}
    dynamic_kwargs = {
        "x": {0: batch}, "pair": {"k": [{0: batch}], "l": (None, {0: batch})}, "count": Dim.DYNAMIC,
        "scale": None, "flag": None, "text": None, "absent": None,
    }

    def nested(n, count):
        return (random(n, 2), {"k": [random(n, 2)], "l": (random(1), random(n, 2))}, count), kwargs

    ids = torch.tensor([[1, 6, 0], [2, 2, 5]])
    positions = [torch.tensor([1]), torch.tensor([3])]
    numbers = (random(2, 3), torch.tensor([0, 2, 1]), torch.tensor([[True, False, False], [False, True, False]]))
    yield "linear_state", LinearState(), [((random(n, 4),), {}) for n in (2, 5)], {"x": {0: batch}}, False
    yield "tied", Tied(), [((ids,), {})], None, False
    yield "conv_norm", ConvNorm(), [((random(1, 2, 5, 6),), {})], None, False
    yield "split", Split(), [((random(2, 6),), {})], None, False
    sizes = {"x": {0: rows, 1: columns}, "y": {0: rows}}
    yield "sizes", Sizes(), [((random(n, m), random(n, 3)), {}) for n, m in ((2, 5), (4, 8))], sizes, False
    yield "writes_plain", Writes(), [((random(1, 3), p), {}) for p in positions], None, False
    yield "writes", Writes(), [((random(1, 3), p), {}) for p in positions], None, True
    yield "grad_modes", GradModes(), [((random(2, 3),), {})], None, False
    yield "bf16", LinearState().to(torch.bfloat16), [((random(2, 4, dtype=torch.bfloat16),), {})], None, False
    yield "kwargs", Kwargs(), [nested(3, 7), nested(5, 9)], dynamic_kwargs, False
    yield "cond", Cond(), [((random(3), torch.tensor([s])), {}) for s in (1.0, -1.0)], None, False
    yield "autocast", Autocast(), [((random(4, 4),), {})], None, False
    yield "numbers", Numbers(), [(numbers, {})], None, False
    two = [((random(4, 4),), {}) for _ in range(2)]
    yield "training", Training(), [((random(2, 3, 5),), {}) for _ in range(2)], None, False
    yield "cond_writes", CondWrites(), [((random(3), torch.tensor([v])), {}) for v in (1.0, 2.0, -1.0)], None, False
    yield "reshapes", Reshapes(), two, None, False
    yield "linear_forms", LinearForms(), [((random(3, 4),), {}) for _ in range(2)], None, False
    yield "decomposed", ConvNorm(), [((random(1, 2, 5, 6),), {})], None, True
    turns = [torch.tensor(n) for n in (3, 0, 5)]
    yield "while_loop", WhileLoop(), [((random(2, 3), n), {}) for n in turns], None, False
    yield "while_nested", WhileNested(), [((random(3), n), {}) for n in turns], None, False
    varying = [((random(n, 3),), {}) for n in (4, 1, 7)]
    yield "while_sizes", WhileSizes(), varying, {"x": {0: batch}}, False
    yield "while_writes", WhileWrites(), [((random(3), n), {}) for n in turns], None, False
    signs = [((random(n, 3).abs() * sign,), {}) for n, sign in ((4, 1), (3, -1), (1, 1))]
    yield "cond_sizes", CondSizes(), signs, {"x": {0: batch}}, False


def leaves(prefix, value):
    """(name, leaf) by the structure: keys and field names, positions otherwise, joined by dots."""
    if isinstance(value, Mapping):
        items = value.items()
    elif hasattr(value, "_fields"):
        items = zip(value._fields, value)
    elif dataclasses.is_dataclass(value):
        items = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    elif isinstance(value, (tuple, list)):
        items = enumerate(value)
    else:
        yield prefix, value
        return
    for key, item in items:
        yield from leaves(f"{prefix}.{key}" if prefix else str(key), item)


def named_outputs(value):
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        named = [pair for i, item in enumerate(value) for pair in leaves(f"output_{i}", item)]
    else:
        named = [(name or "output", leaf) for name, leaf in leaves("", value)]
    return as_tensors(named)


def named_inputs(module, args, kwargs):
    names = [n for n in module.forward.__code__.co_varnames if n != "self"]
    named = [pair for name, value in zip(names, args) for pair in leaves(name, value)]
    return as_tensors(named + list(leaves("", kwargs)))


def as_tensors(named):
    """Tensors and numbers; None and text have no place in the file."""
    return {
        name: value.detach().clone() if isinstance(value, torch.Tensor) else torch.tensor(value)
        for name, value in named
        if value is not None and not isinstance(value, str)
    }


def to_double(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


TYPES = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int32: "I32", torch.int64: "I64", torch.float16: "F16",
    torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64",
}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        content = bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())
        header[name] = {
            "dtype": TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(content)]
        }
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def run_steps(module, steps):
    """Outputs of each step; buffers keep what a step wrote. Inputs are cloned: a model may write into them."""
    module = copy.deepcopy(module)
    outputs = []
    for args, kwargs in steps:
        args, kwargs = pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, (args, kwargs))
        with torch.no_grad():
            outputs.append(named_outputs(module(*args, **kwargs)))
    return outputs


def remove_paths(exported):
    """The folders of the machine that exports have no place in a golden file."""
    for module in exported.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            trace = node.meta.get("stack_trace")
            if trace:
                trace = re.sub(r'File "[^"]*/site-packages/', 'File "site-packages/', trace)
                node.meta["stack_trace"] = re.sub(r'File "/[^"]*/', 'File "', trace)


def make(folder, name, module, steps, dynamic, decompose):
    module.train(getattr(module, "in_training", False))
    args, kwargs = pytree.tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, steps[0])
    with torch.set_grad_enabled(not getattr(module, "without_gradients", False)):
        exported = export(copy.deepcopy(module), args, kwargs, dynamic_shapes=dynamic, strict=False)
    if decompose:
        exported = exported.run_decompositions()
    remove_paths(exported)
    save(exported, str(folder / f"{name}.pt2"))
    tensors = {}
    eager = run_steps(module, steps)
    fp64 = run_steps(copy.deepcopy(module).double(), pytree.tree_map(to_double, steps))
    for k, (args, kwargs) in enumerate(steps):
        for group, values in (("input", named_inputs(module, args, kwargs)), ("eager", eager[k]), ("fp64", fp64[k])):
            for key, tensor in values.items():
                if group != "fp64" or tensor.is_floating_point():
                    tensors[f"case{k}/{group}/{key}"] = tensor
    write_safetensors(folder / f"{name}.cases.safetensors", tensors)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "pt2")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some files alone")
    parser.add_argument("--version", default=torch.__version__.split("+")[0], help="the folder below --out")
    options = parser.parse_args()
    folder = options.out / options.version
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(2024)
    for name, *case in cases():
        if options.only is None or name in options.only:
            try:
                make(folder, name, *case)
                print(f"{name}: {(folder / (name + '.pt2')).stat().st_size} bytes")
            except Exception as error:  # one that this version cannot export does not stop the others
                traceback.print_exception(error, limit=-2)
                print(f"{name}: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
