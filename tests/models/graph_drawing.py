"""Draws one random graph step by step, running each step at once on the data of all cases, in eager and in fp64.

A step that fails, overflows, or is so badly conditioned that eager itself is far from fp64 is thrown away and another
one drawn, so every graph that is kept has references that can be compared. Eager may also be near by luck: what tells
is a second fp64 run in which every result is off by as much as another correct implementation may be.
"""

import math
import random

import torch

import references
from random_ops import Retry, is_float

# How far two correct results may differ; a value belongs to the coarsest type in its history.
CLASSES = ["exact", "fp64", "fp32", "fp16", "bf16"]
CLASS_OF = {torch.float64: 1, torch.float32: 2, torch.float16: 3, torch.bfloat16: 4}
# A step is kept while eager is this near to fp64: a good part of the tolerance is left for others.
CONDITION = [0.0, 1e-9, 1e-5, 4e-4, 6e-3]
# Rounding of a function in one implementation and another, relative: 16-bit results are computed in float32.
ROUNDING = {torch.float64: 2 * torch.finfo(torch.float64).eps}
ROUNDING.update(dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), 2 * torch.finfo(torch.float32).eps))
# (relative, absolute) of each class, as the C++ tests compare.
TOLERANCE = [(0.0, 0.0), (1e-7, 1e-7), (1.3e-6, 1e-5), (1e-3, 1e-5), (1.6e-2, 1e-5)]
INPUTS = 24  # as GraphModule.forward takes
LARGEST = {True: 1e4, False: 1 << 20}
INPUT_TYPES = [torch.float32] * 10 + [torch.float64, torch.bfloat16, torch.bfloat16, torch.float16, torch.int64,
                                      torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool, torch.bool]


class Value:
    """A tensor of the graph, with its data for every case."""

    def __init__(self, tensors, doubles, rank_of_class, rounded=None):
        self.tensors, self.doubles, self.tolerance = tensors, doubles, rank_of_class
        self.rounded = rounded or doubles  # the fp64 run with roundings
        self.dtype = tensors[0].dtype
        self.shape = tuple(tensors[0].shape)
        self.rank = len(self.shape)
        self.exact = rank_of_class == 0
        self.varying = None
        self.distinct = False

    @property
    def comparable(self):
        return is_float(self) and not self.exact

    @property
    def tolerance_class(self):
        return CLASSES[self.tolerance]


class Input(Value):
    """A value that the caller gives: a view of `bases`, often not contiguous."""

    def __init__(self, bases, tensors, varying):
        super().__init__(tensors, [references.to_double(tensor) for tensor in tensors], 0)
        self.bases, self.varying = bases, varying
        self.distinct = all(tensor.unique().numel() == tensor.numel() for tensor in tensors)

    def is_strided(self, case):
        return not self.tensors[case].is_contiguous() or self.tensors[case].storage_offset() != 0

    def describe_view(self, case):
        tensor = self.tensors[case]
        return {"sizes": list(tensor.shape), "strides": list(tensor.stride()), "offset": tensor.storage_offset()}


def draw_values(generator, dtype, dims):
    """Floats on a grid of 1/64 without repeats, so that sums of few are exact and an order is defined."""
    count = math.prod(dims)
    if dtype == torch.bool:
        return torch.rand(dims, generator=generator) > 0.5
    low, high = (0, 120) if dtype == torch.uint8 else (-60, 60)
    if not dtype.is_floating_point:
        return torch.randint(low, high, dims, generator=generator).to(dtype)
    grid = 64 if count < 400 else 512
    numbers = torch.randperm(max(count, 2 * grid), generator=generator)[:count] - max(count, 2 * grid) // 2
    return (numbers.view(dims) / (grid / 2)).to(dtype)


def draw_shape(source):
    """Members of one family broadcast with each other; a few are empty or of another shape."""
    family = source.choice([(3, 5, 7), (2, 3, 4, 6), (5, 8), (1, 6, 5)])
    kind = source.random()
    if kind < 0.06:
        return tuple(0 if index == source.randrange(len(family)) else dim for index, dim in enumerate(family))
    if kind < 0.12:
        return ()
    if kind < 0.45:
        cut = source.randrange(len(family))
        return tuple(dim if source.random() < 0.6 else 1 for dim in family[cut:])
    if kind < 0.55:
        return (source.choice([1, 17, 33]),)
    return family


def draw_input(source, generator, extents):
    dtype = source.choice(INPUT_TYPES)
    shape = draw_shape(source)
    varying = source.randrange(len(shape)) if extents[0] and shape and source.random() < 0.6 else None
    layout = source.choice(["plain", "plain", "plain", "transposed", "sliced", "expanded", "offset"])
    bases, tensors = [], []
    for extent in extents:
        dims = tuple(extent if index == varying else dim for index, dim in enumerate(shape))
        base, tensor = draw_view(generator, dtype, dims, layout)
        bases.append(base)
        tensors.append(tensor)
    return Input(bases, tensors, varying)


def draw_view(generator, dtype, dims, layout):
    """The flat storage and a view of it with these extents."""
    if layout == "transposed" and len(dims) >= 2:
        base = draw_values(generator, dtype, (dims[-1], *dims[1:-1], dims[0]))
        return base.view(-1), base.transpose(0, -1)
    if layout == "sliced" and dims:
        base = draw_values(generator, dtype, (*dims[:-1], 2 * dims[-1] + 1))
        return base.view(-1), base[..., 1::2]
    if layout == "expanded" and len(dims) >= 2:
        base = draw_values(generator, dtype, (1, *dims[1:]))
        return base.view(-1), base.expand(dims)
    if layout == "offset":
        base = draw_values(generator, dtype, (math.prod(dims) + 3,))
        return base, base[3:].view(dims)
    base = draw_values(generator, dtype, dims)
    return base.view(-1), base


def draw_inputs(seed, extents):
    source, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    return {f"x{k}": draw_input(source, generator, extents) for k in range(INPUTS)}


class Draw:
    """What a drawing function asks for: operands, parameters, attributes."""

    def __init__(self, source, generator, values, parameters):
        self.random, self.generator, self.values, self.parameters = source, generator, values, parameters

    def value(self, wanted=lambda value: True, rank=None, least_rank=0):
        fitting = [value for value in self.values if wanted(value) and value.rank >= least_rank
                   and rank in (None, value.rank)]
        if not fitting:
            raise Retry
        recent = fitting[-3:]
        return self.random.choice(recent if self.random.random() < 0.6 else fitting)

    def broadcastable(self, count, wanted):
        """Operands whose shapes broadcast, in every case."""
        tests = wanted if isinstance(wanted, list) else [wanted] * count
        chosen = [self.value(tests[0])]
        for test in tests[1:]:
            chosen.append(self.value(lambda value, test=test: test(value) and all(fit(value, c) for c in chosen)))
        return chosen

    def parameter(self, dims, dtype, spread=0.0):
        """A weight of the graph: normal values, or around one with a small spread (variances)."""
        numbers = torch.randn(tuple(dims), generator=self.generator)
        tensor = (numbers.abs() * spread + 0.5 if spread else numbers).to(dtype)
        return self.constant(tensor)

    def indices(self, extent, dims):
        if extent == 0:
            raise Retry
        return self.constant(torch.randint(0, extent, tuple(dims), generator=self.generator))

    def places(self, extent):
        """Distinct indices."""
        if extent == 0:
            raise Retry
        count = self.random.randint(1, extent)
        return self.constant(torch.randperm(extent, generator=self.generator)[:count])

    def constant(self, tensor):
        cases = len(self.values[0].tensors)
        value = Value([tensor] * cases, [references.to_double(tensor)] * cases, 0)
        self.parameters.append(value)
        return value

    def dim(self, value):
        if value.rank == 0:
            raise Retry
        return self.random.randrange(-value.rank, value.rank)

    def dims(self, value):
        chosen = self.random.sample(range(value.rank), self.random.randint(1, value.rank))
        return [dim - value.rank if self.random.random() < 0.3 else dim for dim in chosen]

    def extent(self, value, dim):
        """The smallest over all cases."""
        return min(tensor.shape[dim] for tensor in value.tensors)

    def varies(self, value, dim):
        return len({tensor.shape[dim] for tensor in value.tensors}) > 1

    def flag(self):
        return self.random.random() < 0.5


def fit(first, second):
    for one, other in zip(first.tensors, second.tensors):
        if any(a != b and 1 not in (a, b) for a, b in zip(reversed(one.shape), reversed(other.shape))):
            return False
    return True


class Graph:
    """Inputs by name, parameters, steps (results = function(operands)) and which values are outputs."""

    def __init__(self, name, inputs):
        self.name, self.inputs = name, inputs
        self.parameters, self.steps, self.outputs = [], [], []

    def named_outputs(self):
        return [(f"{self.name}_{k}", value) for k, value in enumerate(self.outputs)]

    def describe(self):
        return [f"{title} {[list(operand.shape) for operand in operands]}" for title, operands, _, _ in self.steps]

    def run(self, given, parameters):
        known = {id(value): given[name] for name, value in self.inputs.items()}
        known.update({id(value): tensor for value, tensor in zip(self.parameters, parameters)})
        for _, operands, function, results in self.steps:
            tensors = as_tuple(function(*[known[id(operand)] for operand in operands]))
            known.update({id(result): tensor for result, tensor in zip(results, tensors)})
        return {name: known[id(value)] for name, value in self.named_outputs()}


def as_tuple(result):
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


class GraphModule(torch.nn.Module):
    """Several graphs in one module.

    The inputs are named one by one, since PyTorch's checks of varying extents do not take variadic arguments.
    """

    def __init__(self, graphs):
        super().__init__()
        self.graphs = graphs
        for graph in graphs:
            for k, value in enumerate(graph.parameters):
                self.register_buffer(f"{graph.name}_p{k}", value.tensors[0])

    def forward(self, x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15, x16, x17, x18, x19, x20,
                x21, x22, x23):
        inputs = dict(locals())
        outputs = {}
        for graph in self.graphs:
            parameters = [getattr(self, f"{graph.name}_p{k}") for k in range(len(graph.parameters))]
            outputs.update(graph.run(inputs, parameters))
        return outputs


def draw_graph(name, seed, inputs, ops):
    source, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    chosen = source.sample(sorted(inputs), source.randint(2, 5))
    graph = Graph(name, {key: inputs[key] for key in chosen})
    values = list(graph.inputs.values())
    length = source.randint(2, 8)
    for _ in range(400):
        if len(graph.steps) == length:
            break
        draw_step(graph, values, source, generator, ops)
    used = {id(operand) for _, operands, _, _ in graph.steps for operand in operands}
    results = [value for _, _, _, step in graph.steps for value in step]
    graph.outputs = [value for value in results if id(value) not in used or source.random() < 0.15] or results[-1:]
    return graph


def draw_step(graph, values, source, generator, ops):
    kind, draw = source.choice(ops)
    parameters = []
    try:
        operands, function = draw(Draw(source, generator, values, parameters))
        if kind == "jump" and not all(operand.exact for operand in operands):
            return
        results = evaluate(kind, operands, function)
    except (Retry, RuntimeError, IndexError, TypeError, ValueError, NotImplementedError, ZeroDivisionError,
            AssertionError):
        return
    if results:
        graph.parameters += [value for value in parameters if any(value is operand for operand in operands)]
        graph.steps.append((draw.__name__, operands, function, results))
        values += results


@torch.no_grad()
def evaluate(kind, operands, function):
    """The results for all cases, or None where they cannot serve."""
    eager = [as_tuple(function(*[operand.tensors[case] for operand in operands]))
             for case in range(len(operands[0].tensors))]
    if len({len(results) for results in eager}) != 1 or len(eager[0]) > 8:
        return None
    doubles = [as_tuple(run_in_double(function, [operand.doubles[case] for operand in operands]))
               for case in range(len(eager))]
    rounded = doubles
    if not all(operand.exact for operand in operands):
        rounded = [as_tuple(run_in_double(function, [operand.rounded[case] for operand in operands]))
                   for case in range(len(eager))]
    results = []
    for k in range(len(eager[0])):
        tensors, wide, moved = ([case[k] for case in run] for run in (eager, doubles, rounded))
        rank = rank_result(kind, operands, tensors)
        if rank is None or not usable(tensors, wide, rank) or not is_stable(wide, moved, rank):
            return None
        rounded_results = [add_rounding(kind, value, tensors[0].dtype) for value in moved] if rank else wide
        results.append(Value(tensors, wide, rank, rounded_results))
    return results


def is_stable(wide, moved, rank):
    """Whether results that two correct implementations may give would pass as equal."""
    relative, absolute = TOLERANCE[rank]
    return rank == 0 or all(torch.allclose(there, here, rtol=relative, atol=absolute, equal_nan=True)
                            for here, there in zip(wide, moved))


def add_rounding(kind, value, dtype):
    """The value as another implementation may give it: a sum is as exact as its summands, which are larger than it."""
    signs = torch.randint(0, 2, value.shape, generator=torch.Generator().manual_seed(value.numel())) * 2 - 1
    size = value.abs()
    if kind == "rough" and size.isfinite().any():
        size = size.maximum(size[size.isfinite()].double().square().mean().sqrt())
    return torch.where(value == 0, -value, value + signs * size * ROUNDING[dtype])  # a zero may have either sign


def run_in_double(function, tensors):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with references.PromoteToDouble():
            return function(*tensors)
    finally:
        torch.set_default_dtype(before)


def rank_result(kind, operands, tensors):
    """The class of tolerance, or None where an exact result would rest on rough operands."""
    coarsest = max(operand.tolerance for operand in operands)
    dtype = tensors[0].dtype
    if not dtype.is_floating_point:
        return 0 if coarsest == 0 else None
    if kind != "rough" and coarsest == 0:
        return 0
    types = [CLASS_OF[value] for value in (dtype, *(operand.dtype for operand in operands)) if value in CLASS_OF]
    return max(coarsest, *types)


def usable(tensors, wide, rank):
    if len({tensor.dtype for tensor in tensors}) != 1 or len({tensor.dim() for tensor in tensors}) != 1:
        return False
    return all(near(tensor, double, rank) for tensor, double in zip(tensors, wide))


def near(tensor, double, rank):
    if tensor.shape != double.shape or tensor.numel() > 20000:
        return False
    if tensor.dtype == torch.bool or not tensor.dtype.is_floating_point:
        limit = LARGEST[False]
        small = tensor.numel() == 0 or tensor.dtype == torch.bool or -limit <= tensor.min() <= tensor.max() <= limit
        return small and torch.equal(tensor, double.to(tensor.dtype)) and not double.is_floating_point()
    finite = tensor[tensor.isfinite()]
    if finite.numel() and finite.abs().max() > LARGEST[True]:
        return False
    limit = CONDITION[rank]
    return torch.allclose(tensor.double(), double, rtol=limit, atol=limit, equal_nan=True)
