#!/usr/bin/env python3
"""Writes operators.graph: one graph with every operator that has a lowering to StableHLO, small and of fixed sizes.

  write_operators.py > tests/conformance/operators.graph

Types, extents and strides of the results are PyTorch's own. A new lowering to StableHLO needs a line below; the test
EveryLowering says which one is missing.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
import blas_setting  # noqa: E402, F401  before torch

import torch  # noqa: E402

F32, BF16, I32, I64 = torch.float32, torch.bfloat16, torch.int32, torch.int64


class Tensor:
    def __init__(self, name, data):
        self.name, self.data = name, data


class Graph:
    def __init__(self):
        self.inputs, self.nodes, self.outputs = [], [], []

    def input(self, name, dims, dtype=F32):
        if dtype.is_floating_point:
            data = torch.randn(dims).to(dtype)
        else:
            data = torch.randint(0, 2 if dtype == torch.bool else 9, dims).to(dtype)
        self.inputs.append(f"input {name}: {type_text(data)}")
        return Tensor(name, data)

    def run(self, target, shown=None, /, **arguments):
        """One node. `shown`: how many of its results are outputs of the graph (all of them)."""
        operator = torch.ops
        for part in target.split("."):
            operator = getattr(operator, part)
        given = {name: data_of(value) for name, value in arguments.items()}
        return self.add(target, operator(**given), shown, arguments)

    def add(self, target, results, shown, arguments):
        name = target.split(".")[1].strip("_") + f"_{len(self.nodes)}"
        if isinstance(results, (list, tuple)):
            tensors = [Tensor(f"{name}_{k}", data) for k, data in enumerate(results)]
        else:
            tensors = [Tensor(name, results)]
        text = ", ".join(f"{tensor.name}: {type_text(tensor.data)}" for tensor in tensors)
        if isinstance(results, list):
            text = f"[{text}]"
        given = ", ".join(f"{key}={argument_text(value)}" for key, value in arguments.items())
        self.nodes.append(f"{text} = {target}({given})")
        self.outputs += [tensor.name for tensor in tensors[:shown]]
        return tensors if len(tensors) > 1 else tensors[0]

    def text(self):
        outputs = [f'output %{name} "{name}"' for name in self.outputs]
        return "\n".join(["kpt_graph 1", *self.inputs, *self.nodes, *outputs]) + "\n"


def data_of(value):
    if isinstance(value, Tensor):
        return value.data
    return [data_of(item) for item in value] if isinstance(value, list) else value


def type_text(data):
    text = f"{str(data.dtype)[6:]}{list(data.shape)}"
    attributes = []
    if data.numel() > 0 and data.stride() != torch.empty(data.shape).stride():
        attributes.append(f"strides={list(data.stride())}")
    if data.storage_offset() != 0:
        attributes.append(f"offset={data.storage_offset()}")
    return text + ("{" + ", ".join(attributes) + "}" if attributes else "")


def argument_text(value):
    if isinstance(value, Tensor):
        return f"%{value.name}"
    if isinstance(value, list):
        kind = "int" if not value else "tensor?" if None in value else ""
        return f"{kind}[{', '.join(argument_text(item) for item in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, torch.dtype):
        return f"dtype({str(value)[6:]})"
    if isinstance(value, torch.device):
        return f"device({value})"
    if isinstance(value, str):
        return f'"{value}"'
    return "none" if value is None else repr(value)


class Inputs:
    def __init__(self, g):
        self.x, self.y = g.input("x", [4, 6]), g.input("y", [4, 6])
        self.row, self.square, self.cube = g.input("row", [6]), g.input("square", [6, 6]), g.input("cube", [2, 4, 6])
        self.line, self.image = g.input("line", [2, 4, 10]), g.input("image", [2, 4, 8, 8])
        self.volume, self.half = g.input("volume", [1, 2, 4, 4, 4]), g.input("half", [4, 6], BF16)
        self.n, self.m, self.places = g.input("n", [4, 6], I64), g.input("m", [4, 6], I64), g.input("places", [3], I64)
        self.b, self.c = g.input("b", [4, 6], torch.bool), g.input("c", [4, 6], torch.bool)
        # For divisions: TPUs have no int64, and their compiler writes out each such division at great length.
        self.short, self.divisor = g.input("short", [4, 6], I32), g.input("divisor", [4, 6], I32)
        # In the domains of functions, and in the ranges of indices.
        self.magnitude = g.run("aten.abs.default", self=self.x)
        self.positive = g.run("aten.add.Scalar", self=self.magnitude, other=0.5)
        self.above = g.run("aten.add.Scalar", self=self.positive, other=1)
        self.soft = g.run("aten.tanh.default", self=self.x)
        self.unit = g.run("aten.mul.Scalar", self=self.soft, other=0.9)
        self.rest = g.run("aten.bitwise_and.Scalar", self=self.n, other=3)
        self.odd = g.run("aten.bitwise_or.Scalar", self=self.divisor, other=1)
        self.some = g.run("aten.bitwise_and.Scalar", self=self.places, other=3)  # rows of x, maybe twice
        self.each = g.run("aten.arange.start_step", start=0, end=4, step=2)  # rows of x, each once


def elementwise(g, i):
    for name in ["acos", "asin", "atanh"]:
        g.run(f"aten.{name}.default", self=i.unit)
    for name in ["log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sqrt"]:
        g.run(f"aten.{name}.default", self=i.positive)
    g.run("aten.acosh.default", self=i.above)
    for name in ["asinh", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "floor", "isfinite", "isinf",
                 "isnan", "nan_to_num", "neg", "positive", "round", "sgn", "sigmoid", "sign", "signbit", "sin", "sinh",
                 "square", "tan", "trunc", "logical_not"]:
        g.run(f"aten.{name}.default", self=i.x)
    g.run("aten.round.decimals", self=i.x, decimals=0)
    g.run("aten.bitwise_not.default", self=i.n)
    for name in ["add", "sub", "mul", "div", "true_divide", "rsub"]:
        g.run(f"aten.{name}.Tensor", self=i.x, other=i.positive)
        if name not in ("add", "mul"):
            g.run(f"aten.{name}.Scalar", self=i.x, other=1.5)
    g.run("aten.div.Tensor_mode", self=i.short, other=i.odd, rounding_mode="trunc")
    g.run("aten.div.Scalar_mode", self=i.short, other=3, rounding_mode="floor")
    g.run("aten.floor_divide.default", self=i.short, other=i.odd)
    g.run("aten.floor_divide.Scalar", self=i.short, other=3)
    g.run("aten.fmod.Tensor", self=i.short, other=i.odd)
    g.run("aten.fmod.Scalar", self=i.short, other=3)
    g.run("aten.remainder.Tensor", self=i.short, other=i.odd)
    g.run("aten.remainder.Scalar", self=i.short, other=4)
    g.run("aten.remainder.Scalar_Tensor", self=7, other=i.odd)
    for name in ["atan2", "fmax", "fmin", "hypot", "maximum", "minimum"]:
        g.run(f"aten.{name}.default", self=i.x, other=i.row)
    g.run("aten.max.other", self=i.x, other=i.y)
    g.run("aten.min.other", self=i.x, other=i.y)
    g.run("aten.addcmul.default", self=i.x, tensor1=i.y, tensor2=i.row, value=0.5)
    g.run("aten.addcdiv.default", self=i.x, tensor1=i.y, tensor2=i.positive)
    g.run("aten.lerp.Scalar", self=i.x, end=i.y, weight=0.3)
    g.run("aten.lerp.Tensor", self=i.x, end=i.y, weight=i.unit)
    g.run("aten.pow.Scalar", self=1.5, exponent=i.x)
    g.run("aten.pow.Tensor_Scalar", self=i.x, exponent=3)
    g.run("aten.pow.Tensor_Tensor", self=i.positive, exponent=i.y)
    g.run("aten.pow_.Scalar", self=g.run("aten.clone.default", 0, self=i.positive), exponent=1.5)
    g.run("aten.pow_.Tensor", self=g.run("aten.contiguous.default", 0, self=i.above), exponent=i.x)


def comparisons(g, i):
    for name in ["eq", "ge", "gt", "le", "lt", "ne"]:
        g.run(f"aten.{name}.Tensor", self=i.n, other=i.m)
        g.run(f"aten.{name}.Scalar", self=i.x, other=0.5)
    for name in ["logical_and", "logical_or", "logical_xor"]:
        g.run(f"aten.{name}.default", self=i.b, other=i.c)
    for name in ["__and__", "__or__", "__xor__", "bitwise_and", "bitwise_or", "bitwise_xor"]:
        g.run(f"aten.{name}.Tensor", self=i.n, other=i.m)
        g.run(f"aten.{name}.Scalar", self=i.n, other=5)
    for name in ["__lshift__", "__rshift__"]:
        g.run(f"aten.{name}.Tensor", self=i.n, other=i.rest)
        g.run(f"aten.{name}.Scalar", self=i.n, other=2)
    for name in ["bitwise_left_shift", "bitwise_right_shift"]:
        g.run(f"aten.{name}.Tensor", self=i.n, other=i.rest)
        g.run(f"aten.{name}.Tensor_Scalar", self=i.n, other=2)
    g.run("aten.where.self", condition=i.b, self=i.x, other=i.y)
    g.run("aten.where.Scalar", condition=i.b, self=1.5, other=-2.0)
    g.run("aten.where.ScalarOther", condition=i.b, self=i.x, other=0.0)
    g.run("aten.where.ScalarSelf", condition=i.b, self=1.0, other=i.y)
    g.run("aten.masked_fill.Scalar", self=i.x, mask=i.b, value=-1.5)
    g.run("aten.masked_fill.Tensor", self=i.x, mask=i.b, value=g.run("aten.scalar_tensor.default", s=0.25))
    g.run("aten.clamp.default", self=i.x, min=-1, max=0.5)
    g.run("aten.clamp.Tensor", self=i.x, min=i.unit, max=i.above)
    g.run("aten.clamp_max.default", self=i.x, max=0.5)
    g.run("aten.clamp_max.Tensor", self=i.x, max=i.y)
    g.run("aten.clamp_min.default", self=i.x, min=0.5)
    g.run("aten.clamp_min.Tensor", self=i.x, min=i.y)


def activations(g, i):
    for name in ["celu", "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "log_sigmoid", "mish", "relu",
                 "relu6", "selu", "silu", "softplus", "glu"]:
        g.run(f"aten.{name}.default", self=i.x)
    g.run("aten.threshold.default", self=i.x, threshold=0.25, value=-1.0)
    g.run("aten.dropout.default", input=i.x, p=0.5, train=False)
    g.run("aten.feature_dropout.default", input=i.x, p=0.5, train=False)


def reductions(g, i):
    for name in ["all", "any", "max", "min", "mean", "prod", "sum", "std", "var", "var_mean", "argmax", "argmin"]:
        g.run(f"aten.{name}.default", self=i.x)
    for name in ["amax", "amin"]:
        g.run(f"aten.{name}.default", self=i.cube, dim=[0, 2])
    for name in ["all", "any"]:
        g.run(f"aten.{name}.dim", self=i.b, dim=1)
        g.run(f"aten.{name}.dims", self=i.b, dim=[0, 1])
    for name in ["max", "min"]:
        g.run(f"aten.{name}.dim", self=i.x, dim=1)
    for name in ["std", "var", "var_mean"]:
        g.run(f"aten.{name}.dim", self=i.cube, dim=[1], unbiased=False)
        g.run(f"aten.{name}.correction", self=i.cube, dim=[0, 2], correction=1)
    g.run("aten.aminmax.default", self=i.x, dim=1)
    g.run("aten.mean.dim", self=i.cube, dim=[0, -1])
    g.run("aten.sum.dim_IntList", self=i.cube, dim=[1], keepdim=True)
    g.run("aten.prod.dim_int", self=i.x, dim=1)
    g.run("aten.logsumexp.default", self=i.x, dim=[1])
    g.run("aten.linalg_vector_norm.default", self=i.x, ord=2, dim=[1])
    g.run("aten.norm.Scalar", self=i.x, p=2)
    g.run("aten.norm.ScalarOpt_dim", self=i.x, p=1, dim=[0])
    g.run("aten.norm.ScalarOpt_dim_dtype", self=i.half, p=2, dim=[1], keepdim=False, dtype=F32)
    g.run("aten.cumsum.default", self=i.x, dim=1)
    g.run("aten.cumprod.default", self=i.x, dim=0)
    g.run("aten._softmax.default", self=i.x, dim=1, half_to_float=False)
    g.run("aten._log_softmax.default", self=i.x, dim=0, half_to_float=False)
    g.run("aten._safe_softmax.default", self=i.x, dim=-1)
    g.run("aten.softmax.int", self=i.half, dim=-1, dtype=F32)
    g.run("aten.log_softmax.int", self=i.cube, dim=1)
    g.run("aten.argsort.default", self=i.x, dim=1)
    g.run("aten.argsort.stable", self=i.n, stable=True, dim=0)
    g.run("aten.sort.default", self=i.x, dim=0)
    g.run("aten.sort.stable", self=i.n, stable=True, dim=1, descending=True)
    g.run("aten.topk.default", self=i.x, k=2)


def shapes(g, i):
    g.run("aten.cat.default", tensors=[i.x, i.y], dim=1)
    g.run("aten.concat.default", tensors=[i.x, i.half], dim=0)
    g.run("aten.hstack.default", tensors=[i.x, i.y])
    g.run("aten.vstack.default", tensors=[i.x, i.row])
    g.run("aten.stack.default", tensors=[i.x, i.y], dim=1)
    g.run("aten.constant_pad_nd.default", self=i.x, pad=[1, 2], value=0.5)
    g.run("aten.pad.default", self=i.x, pad=[0, 1, 1, 0], mode="constant", value=2.0)
    g.run("aten.reflection_pad1d.default", self=i.line, padding=[2, 1])
    g.run("aten.reflection_pad2d.default", self=i.image, padding=[1, 2, 0, 1])
    g.run("aten.replication_pad1d.default", self=i.line, padding=[2, 1])
    g.run("aten.replication_pad2d.default", self=i.image, padding=[1, 2, 0, 1])
    g.run("aten.flip.default", self=i.x, dims=[0, 1])
    g.run("aten.roll.default", self=i.x, shifts=[1, -2], dims=[0, 1])
    g.run("aten.repeat.default", self=i.x, repeats=[2, 1, 2])
    g.run("aten.repeat_interleave.self_int", self=i.x, repeats=2, dim=1)
    g.run("aten.tile.default", self=i.x, dims=[2, 1])
    g.run("aten.tril.default", self=i.square)
    g.run("aten.triu.default", self=i.square, diagonal=1)
    g.run("aten.diff.default", self=i.x, dim=1)
    g.run("aten.copy.default", self=i.x, src=i.half)
    g.run("aten._to_copy.default", self=i.x, dtype=BF16)
    g.run("aten.to.dtype", self=i.half, dtype=F32)
    g.run("aten.to.dtype_layout", self=i.n, dtype=F32)
    g.run("aten.to.device", self=i.n, device=torch.device("cpu"), dtype=torch.int32)
    g.run("aten.to.other", self=i.n, other=i.x)
    g.run("aten.type_as.default", self=i.b, other=i.x)
    for name in ["alias", "detach", "lift_fresh", "lift_fresh_copy", "ravel", "t", "mT", "matrix_H", "numpy_T"]:
        g.run(f"aten.{name}.default", self=i.x)


def views(g, i):
    g.run("aten.view.default", self=i.x, size=[2, 12])
    g.run("aten._unsafe_view.default", self=i.x, size=[8, 3])
    g.run("aten.reshape.default", self=i.cube, shape=[8, 6])
    g.run("aten.reshape_as.default", self=i.x, other=i.y)
    g.run("aten.view_as.default", self=i.x, other=i.y)
    g.run("aten.flatten.using_ints", self=i.cube, start_dim=1)
    g.run("aten.unflatten.int", self=i.x, dim=1, sizes=[2, 3])
    g.run("aten.expand.default", self=i.row, size=[4, 6])
    g.run("aten.expand_as.default", self=i.row, other=i.x)
    g.run("aten.broadcast_to.default", self=i.row, size=[2, 6])
    g.run("aten.permute.default", self=i.cube, dims=[2, 0, 1])
    g.run("aten.transpose.int", self=i.cube, dim0=0, dim1=2)
    g.run("aten.swapaxes.default", self=i.cube, axis0=0, axis1=1)
    g.run("aten.swapdims.default", self=i.cube, dim0=1, dim1=2)
    g.run("aten.movedim.int", self=i.cube, source=0, destination=2)
    g.run("aten.movedim.intlist", self=i.cube, source=[0, 1], destination=[1, 2])
    wide = g.run("aten.unsqueeze.default", self=i.x, dim=1)
    g.run("aten.squeeze.default", self=wide)
    g.run("aten.squeeze.dim", self=wide, dim=1)
    g.run("aten.squeeze.dims", self=wide, dim=[1])
    g.run("aten.select.int", self=i.x, dim=0, index=-1)
    g.run("aten.slice.Tensor", self=i.x, dim=1, start=1, end=6, step=2)
    g.run("aten.narrow.default", self=i.x, dim=1, start=2, length=3)
    g.run("aten.diagonal.default", self=i.square, offset=1)
    g.run("aten.unfold.default", self=i.x, dimension=1, size=3, step=2)
    g.run("aten.unbind.int", self=i.x, dim=0)
    g.run("aten.chunk.default", self=i.x, chunks=2, dim=1)
    g.run("aten.unsafe_chunk.default", self=i.x, chunks=2, dim=1)
    g.run("aten.split.Tensor", self=i.x, split_size=4, dim=1)
    g.run("aten.split.sizes", self=i.x, split_size=[1, 5], dim=1)
    g.run("aten.split_with_sizes.default", self=i.x, split_sizes=[2, 4], dim=1)
    g.run("aten.unsafe_split.Tensor", self=i.x, split_size=2, dim=0)
    g.run("aten.tensor_split.sections", self=i.x, sections=4, dim=1)
    g.run("aten.tensor_split.indices", self=i.x, indices=[1, 4], dim=1)


def creation(g, i):
    # What is in new memory is nobody's business: these are not shown.
    g.run("aten.empty.memory_format", 0, size=[2, 3])
    g.run("aten.empty_like.default", 0, self=i.x)
    g.run("aten.empty_permuted.default", 0, size=[2, 3], physical_layout=[1, 0])
    g.run("aten.empty_strided.default", 0, size=[2, 3], stride=[3, 1])
    g.run("aten.new_empty.default", 0, self=i.x, size=[3])
    g.run("aten.arange.default", end=5)
    g.run("aten.arange.start", start=2, end=6)
    g.run("aten.eye.default", n=3)
    g.run("aten.eye.m", n=2, m=4)
    g.run("aten.fill.Scalar", self=i.x, value=2)
    g.run("aten.fill.Tensor", self=i.x, value=g.run("aten.dot.default", self=i.row, tensor=i.row))
    g.run("aten.full.default", size=[2, 3], fill_value=0.5)
    g.run("aten.full_like.default", self=i.x, fill_value=3)
    g.run("aten.linspace.default", start=0, end=1, steps=5)
    g.run("aten.new_full.default", self=i.x, size=[2], fill_value=1.5)
    g.run("aten.new_ones.default", self=i.x, size=[2])
    g.run("aten.new_zeros.default", self=i.x, size=[2])
    g.run("aten.one_hot.default", self=i.rest, num_classes=4)
    g.run("aten.ones.default", size=[2])
    g.run("aten.ones_like.default", self=i.x)
    g.run("aten.zero.default", self=i.x)
    g.run("aten.zeros.default", size=[2])
    g.run("aten.zeros_like.default", self=i.x)


def indexing(g, i):
    part = g.run("aten.index_select.default", self=i.y, dim=0, index=i.each)
    three = g.run("aten.index.Tensor", self=i.x, indices=[i.some])
    g.run("aten.embedding.default", weight=i.x, indices=i.some)
    g.run("aten.gather.default", self=i.x, dim=0, index=i.rest)
    g.run("aten.take.default", self=i.x, index=i.rest)
    g.run("aten.take_along_dim.default", self=i.x, indices=i.rest, dim=0)
    g.run("aten.index_add.default", self=i.x, dim=0, index=i.some, source=three)
    g.run("aten.index_copy.default", self=i.x, dim=0, index=i.each, source=part)
    g.run("aten.index_fill.int_Scalar", self=i.x, dim=0, index=i.some, value=1.5)
    g.run("aten.index_fill.int_Tensor", self=i.x, dim=0, index=i.some,
          value=g.run("aten.scalar_tensor.default", s=0.75))
    g.run("aten.index_put.default", self=i.x, indices=[i.each], values=part)
    g.run("aten.select_scatter.default", self=i.x, src=i.row, dim=0, index=1)
    g.run("aten.slice_scatter.default", self=i.x, src=part, dim=0, start=0, end=4, step=2)
    g.run("aten.diagonal_scatter.default", self=i.square, src=i.row)
    order = g.run("aten.argsort.default", self=i.y, dim=0)
    g.run("aten.scatter.src", self=i.x, dim=0, index=order, src=i.y)
    g.run("aten.scatter.value", self=i.x, dim=0, index=i.rest, value=2.0)
    g.run("aten.scatter_add.default", self=i.x, dim=0, index=i.rest, src=i.y)
    g.run("aten.scatter_reduce.two", self=i.x, dim=0, index=i.rest, src=i.y, reduce="amax")


def products(g, i):
    weight = g.run("aten.transpose.int", 0, self=i.x, dim0=0, dim1=1)
    g.run("aten.mm.default", self=i.x, mat2=i.square)
    g.run("aten.addmm.default", self=i.row, mat1=i.x, mat2=i.square, beta=0.5, alpha=2)
    batch = g.run("aten.bmm.default", self=i.cube, mat2=g.run("aten.expand.default", 0, self=i.square, size=[2, 6, 6]))
    g.run("aten.baddbmm.default", self=batch, batch1=i.cube,
          batch2=g.run("aten.expand.default", 0, self=i.square, size=[2, 6, 6]))
    g.run("aten.matmul.default", self=i.cube, other=weight)
    g.run("aten.linear.default", input=i.cube, weight=i.square, bias=i.row)
    g.run("aten.mv.default", self=i.x, vec=i.row)
    g.run("aten.outer.default", self=i.row, vec2=i.row)
    g.run("aten.einsum.default", equation="bij,kj->bik", tensors=[i.cube, i.x])
    heads = g.run("aten.view.default", 0, self=i.image, size=[2, 4, 8, 8])
    g.run("aten.scaled_dot_product_attention.default", query=heads, key=heads, value=heads, is_causal=True)
    g.run("aten._scaled_dot_product_flash_attention_for_cpu.default", 1, query=heads, key=heads, value=heads)


def convolutions(g, i):
    # The compiler for TPUs takes seconds for each, so they are small, and most are in bfloat16 (float32: six passes).
    fine, coarse = g.input("w_float", [4, 4, 3, 3]), [g.input(f"w{r}", [2, 2] + [3] * r, BF16) for r in (1, 2, 3)]
    lines, images = g.input("lines", [2, 2, 10], BF16), g.input("images", [2, 2, 8, 8], BF16)
    volumes = g.input("volumes", [1, 2, 4, 4, 4], BF16)
    g.run("aten.conv2d.default", input=i.image, weight=fine, padding=[1, 1])
    for rank, data, weight in zip((1, 2, 3), (lines, images, volumes), coarse):
        if rank != 2:
            g.run(f"aten.conv{rank}d.default", input=data, weight=weight, padding=[1] * rank)
        g.run(f"aten.conv{rank}d.padding", input=data, weight=weight, padding="valid")
        g.run(f"aten.conv_transpose{rank}d.{'default' if rank == 1 else 'input'}", input=data, weight=weight,
              stride=[2] * rank)
    g.run("aten.convolution.default", input=images, weight=coarse[1], bias=None, stride=[2, 2], padding=[1, 1],
          dilation=[1, 1], transposed=False, output_padding=[0, 0], groups=1)
    for rank, data in ((1, i.line), (2, i.image), (3, i.volume)):
        g.run(f"aten.adaptive_avg_pool{rank}d.default", self=data, output_size=[2] * rank)
        g.run(f"aten.avg_pool{rank}d.default", self=data, kernel_size=[2] * rank, stride=[2] * rank)
        g.run(f"aten.max_pool{rank}d.default", self=data, kernel_size=[2] * rank, stride=[2] * rank)
    g.run("aten._adaptive_avg_pool2d.default", self=i.image, output_size=[3, 2])
    g.run("aten._adaptive_avg_pool3d.default", self=i.volume, output_size=[2, 2, 2])
    g.run("aten.max_pool2d_with_indices.default", 1, self=i.image, kernel_size=[3, 3], stride=[2, 2], padding=[1, 1])
    g.run("aten.upsample_bilinear2d.default", self=i.image, output_size=[12, 10], align_corners=False)
    g.run("aten.upsample_bilinear2d.vec", input=i.image, output_size=None, align_corners=True, scale_factors=[2.0, 1.5])
    g.run("aten.upsample_nearest2d.default", self=i.image, output_size=[12, 10])
    g.run("aten.upsample_nearest2d.vec", input=i.image, output_size=None, scale_factors=[2.0, 2.0])


def norms(g, i):
    w, v = g.input("channels", [4]), g.run("aten.exp.default", 0, self=g.input("spread", [4]))
    g.run("aten.layer_norm.default", input=i.cube, normalized_shape=[6], weight=i.row, bias=i.row)
    g.run("aten.native_layer_norm.default", 1, input=i.x, normalized_shape=[6], weight=i.row, bias=None, eps=1e-5)
    g.run("aten.rms_norm.default", input=i.x, normalized_shape=[6], weight=i.row, eps=1e-6)
    g.run("aten.group_norm.default", input=i.image, num_groups=2, weight=w, bias=w)
    g.run("aten.native_group_norm.default", 1, input=i.image, weight=w, bias=w, N=2, C=4, HxW=64, group=2, eps=1e-5)
    g.run("aten.instance_norm.default", input=i.image, weight=w, bias=w, running_mean=None, running_var=None,
          use_input_stats=True, momentum=0.1, eps=1e-5, cudnn_enabled=False)
    g.run("aten.batch_norm.default", input=i.image, weight=w, bias=w, running_mean=w, running_var=v, training=False,
          momentum=0.1, eps=1e-5, cudnn_enabled=False)
    g.run("aten._native_batch_norm_legit_no_training.default", 1, input=i.line, weight=w, bias=w, running_mean=w,
          running_var=v, momentum=0.1, eps=1e-5)


def own(g, i):
    """Operators of ir/own_operators.h: PyTorch has none of them, only their extents matter here."""
    def add(target, dims, **arguments):
        results = tuple(torch.empty(one) for one in dims) if isinstance(dims[0], list) else torch.empty(dims)
        return g.add(target, results, None, arguments)
    add("kpt.linear.default", [4, 6], input=i.x, weight=i.square, bias=i.row, residual=i.y, activation="gelu")
    add("kpt.add_norm.default", [[4, 6], [4, 6]], input=i.x, residual=i.y, weight=i.row, bias=i.row, epsilon=1e-5,
        kind="layer")
    add("kpt.glu.default", [4, 3], input=i.x, activation="silu")
    turned = add("kpt.rotary.default", [2, 4, 8, 8], input=i.image, cos=i.image, sin=i.image)
    add("kpt.attention.default", [2, 8, 4, 8], query=turned, key=i.image, value=i.image, mask=None, scale=0.3, causal=True)
    add("kpt.conv2d.default", [2, 4, 8, 8], input=i.image, weight=g.input("w4", [4, 4, 3, 3]), bias=None, residual=i.image,
        stride=[1, 1], padding=[1, 1], dilation=[1, 1], groups=1, activation="relu6")


def own_quantized(g, i):
    """Their numbers are held by quantized_numbers_test.cpp: they round their inputs, as nothing of PyTorch does."""
    def codes(name, dims):
        return g.run("aten.to.dtype", 0, self=g.input(name, dims, I32), dtype=torch.int8)
    def add(target, dims, **arguments):
        g.add(target, torch.empty(dims), None, arguments)
    rest = {"bias": i.row, "residual": i.y, "activation": "gelu"}
    square = codes("codes", [6, 6])
    add("kpt.linear_int8.default", [4, 6], input=i.x, weight=square, scale=i.row, **rest)
    add("kpt.linear_weight_int8.default", [4, 6], input=i.x, weight=square, scale=i.row, **rest)
    add("kpt.linear_fp8.default", [4, 6], input=i.x,
        weight=g.run("aten.to.dtype", 0, self=i.square, dtype=torch.float8_e4m3fn), scale=i.row, **rest)
    add("kpt.linear_int4.default", [4, 6], input=g.input("wide", [4, 32]), weight=g.input("pairs", [6, 16], torch.uint8),
        scale=g.input("group_scale", [6, 1]), **rest, group=32)
    add("kpt.conv2d_int8.default", [2, 4, 8, 8], input=i.image, weight=codes("filters", [4, 4, 3, 3]),
        scale=g.input("filter_scale", [4]), bias=None, residual=i.image, stride=[1, 1], padding=[1, 1], dilation=[1, 1],
        activation="none")


def eight_bits(g, i):
    """Codes of FP8; which scales PyTorch's own operator takes depends on version and processor."""
    left = g.run("aten.to.dtype", 0, self=i.x, dtype=torch.float8_e4m3fn)
    right = g.run("aten.t.default", 0, self=g.run("aten.to.dtype", 0, self=i.square, dtype=torch.float8_e5m2))
    g.add("aten._scaled_mm.default", torch.empty(4, 6), None,
          {"self": left, "mat2": right, "scale_a": g.input("rows", [4, 1]), "scale_b": g.input("columns", [1, 6]),
           "bias": i.row, "scale_result": None, "out_dtype": F32, "use_fast_accum": False})


def main():
    torch.manual_seed(0)
    graph = Graph()
    inputs = Inputs(graph)
    for part in (elementwise, comparisons, activations, reductions, shapes, views, creation, indexing, products,
                 convolutions, norms, own, own_quantized, eight_bits):
        part(graph, inputs)
    sys.stdout.write(graph.text())


if __name__ == "__main__":
    main()
