"""Operators of random graphs that move, pick, join or make values; see random_ops.py."""

import math
import operator

import torch
from torch._export.serde.serialize import _SYM_OPS as SAVED_SIZE_OPERATORS
from torch.nn import functional

from random_ops import is_float, is_integer, is_number, op


@op("copy")
def reshape(d):
    x = d.value()
    functions = [lambda x: x.reshape(-1), lambda x: x.flatten(), lambda x: x.reshape(1, -1), lambda x: x.ravel(),
                 lambda x: x.reshape(x.shape + (1,)), lambda x: x.flatten(0, 1), lambda x: x.unflatten(0, (-1, 1)),
                 lambda x: x.contiguous().view(-1), lambda x: x.contiguous().view(x.shape[0], -1),
                 lambda x: x.reshape(x.shape[0] * x.shape[1], *x.shape[2:]), lambda x: x.view(x.shape)]
    return [x], d.random.choice(functions)


@op("copy")
def permute(d):
    x = d.value(least_rank=1)
    order = d.random.sample(range(x.rank), x.rank)
    first, second = d.dim(x), d.dim(x)
    functions = [lambda x: x.permute(order), lambda x: x.transpose(first, second), lambda x: x.movedim(first, second),
                 lambda x: x.transpose(first, second).contiguous(), lambda x: x.flip(second % x.dim()),
                 lambda x: x.swapaxes(first, second), lambda x: x.mT, lambda x: x.t()]
    return [x], d.random.choice(functions)


OPS_AGAIN = [op("copy")(reshape), op("copy")(permute)]


@op("copy")
def expand(d):
    x = d.value()
    dim, count = d.random.randint(0, x.rank), d.random.choice([1, 2, 3])
    functions = [lambda x: x.unsqueeze(dim),
                 lambda x: x.unsqueeze(dim).expand(*[-1] * dim, count, *[-1] * (x.dim() - dim)),
                 lambda x: x.expand(2, *x.shape), lambda x: x[None], lambda x: x.broadcast_to((count,) + x.shape),
                 lambda x: x.repeat(count, *[1] * x.dim()), lambda x: x.repeat_interleave(count, 0),
                 lambda x: x.tile((count,)), lambda x: x.expand_as(x)]
    return [x], d.random.choice(functions)


@op("copy")
def squeeze(d):
    x = d.value(least_rank=1)
    dim = d.dim(x)
    return [x], d.random.choice([lambda x: x.squeeze(dim), lambda x: x[None].squeeze(0), lambda x: x.squeeze((0, -1))])


@op("copy")
def slice_values(d):
    x = d.value(least_rank=1)
    low, high, step = d.random.choice([0, 1, -3]), d.random.choice([1, 2, -1, 1000]), d.random.choice([1, 2, 3])
    functions = [lambda x: x[low:], lambda x: x[:high], lambda x: x[low:high], lambda x: x[..., ::step],
                 lambda x: x[..., low:high:step], lambda x: x[:, low:high], lambda x: x.narrow(0, 0, 1),
                 lambda x: x[:x.shape[0] // 2], lambda x: x[x.shape[0] - 1:], lambda x: x[..., :x.shape[-1] // 2]]
    return [x], d.random.choice(functions)


OPS_AGAIN.append(op("copy")(slice_values))


@op("copy")
def select(d):
    x = d.value(least_rank=1)
    dim, index = d.dim(x), d.random.choice([0, -1, 1])
    functions = [lambda x: x.select(dim, index), lambda x: x[index], lambda x: x[..., index],
                 lambda x: x[..., None, index], lambda x: x.diagonal() if x.dim() > 1 else x]
    return [x], d.random.choice(functions)


@op("copy")
def join(d):
    x = d.value()
    y = d.value(lambda v: v.shape == x.shape)
    dim = d.dim(x) if x.rank else 0
    functions = [lambda x, y: torch.cat([x, y], dim), lambda x, y: torch.stack([x, y], dim),
                 lambda x, y: torch.cat([x, x, y], dim), lambda x, y: torch.stack([y, x]),
                 lambda x, y: torch.cat([x, y[:0]], 0), lambda x, y: torch.hstack([x, y]),
                 lambda x, y: torch.cat([x[..., :1], y], -1)]
    return [x, y], d.random.choice(functions)


@op("copy")
def part(d):
    x = d.value(least_rank=1)
    dim, count = d.dim(x), d.random.choice([1, 2, 3])
    extent = d.extent(x, dim)
    sizes = [extent - extent // 3, extent // 3]
    functions = [lambda x: x.split(count, dim), lambda x: x.chunk(count, dim), lambda x: x.unbind(dim),
                 lambda x: torch.split(x, sizes, dim), lambda x: x.tensor_split(count, dim),
                 lambda x: x.unfold(dim, 2, 1)]
    return [x], d.random.choice(functions)


@op("copy")
def roll_and_pad(d):
    x = d.value(least_rank=1)
    dim, count, number = d.dim(x), d.random.choice([-1, 1, 2]), d.random.choice([0, 1, -2.5])
    functions = [lambda x: x.roll(count, dim), lambda x: x.roll(count), lambda x: x.flip(dim),
                 lambda x: functional.pad(x, (1, 2), value=number), lambda x: functional.pad(x, (0, 1, 2, 0)),
                 lambda x: functional.pad(x, (-1, 1)), lambda x: functional.pad(x, (1, 1), mode="reflect"),
                 lambda x: functional.pad(x, (2, 1), mode="replicate"), lambda x: x.flip((0, -1))]
    return [x], d.random.choice(functions)


@op("copy")
def triangle(d):
    x = d.value(least_rank=2)
    diagonal = d.random.choice([-1, 0, 1])
    return [x], d.random.choice([lambda x: x.tril(diagonal), lambda x: x.triu(diagonal)])


@op("copy")
def take_by_index(d):
    x = d.value(least_rank=1)
    dim = d.dim(x)
    extent = d.extent(x, dim)
    index = d.indices(extent, (d.random.choice([1, 2, 5]),))
    pairs = d.indices(extent, (2, 3))
    functions = [lambda x, i, p: x.index_select(dim, i), lambda x, i, p: x.movedim(dim, 0)[i],
                 lambda x, i, p: x.movedim(dim, 0)[p], lambda x, i, p: x.movedim(dim, -1)[..., i],
                 lambda x, i, p: x.movedim(dim, 0)[p - d_first(x, dim)], lambda x, i, p: x.movedim(dim, 0).take(i[:1])]
    return [x, index, pairs], d.random.choice(functions)


def d_first(x, dim):
    """Turns valid indices into negative ones that name the same elements."""
    return x.shape[dim]


@op("copy")
def take_by_two_indices(d):
    x = d.value(least_rank=2)
    first, second = d.indices(d.extent(x, 0), (4,)), d.indices(d.extent(x, 1), (4,))
    functions = [lambda x, i, j: x[i, j], lambda x, i, j: x[:, j], lambda x, i, j: x[i[:, None], j],
                 lambda x, i, j: x[None, i, j], lambda x, i, j: x[i, 0], lambda x, i, j: x[i, ..., :1]]
    return [x, first, second], d.random.choice(functions)


@op("copy")
def gather(d):
    x = d.value(least_rank=1)
    dim = d.dim(x)
    shape = list(x.shape)
    shape[dim] = d.random.choice([1, 2, 4])
    index = d.indices(d.extent(x, dim), shape)
    functions = [lambda x, i: x.gather(dim, i), lambda x, i: torch.take_along_dim(x, i, dim)]
    return [x, index], d.random.choice(functions)


@op("copy")
def scatter(d):
    """Each place is written once: which of several writes wins is not defined."""
    x = d.value(is_number, least_rank=1)
    dim = d.dim(x)
    index = d.places(d.extent(x, dim))
    number = d.random.choice([0, 1, 2])

    def shaped(x, i):
        shape = [1] * x.dim()
        shape[dim] = -1
        return i.view(shape).expand_as(x.narrow(dim, 0, i.shape[0]))
    functions = [lambda x, i: x.scatter(dim, shaped(x, i), number),
                 lambda x, i: x.scatter(dim, shaped(x, i), x.flip(dim).narrow(dim, 0, i.shape[0])),
                 lambda x, i: x.index_fill(dim, i, number), lambda x, i: x.select_scatter(x.select(dim, 0), dim, -1),
                 lambda x, i: x.index_copy(dim, i, x.flip(dim).narrow(dim, 0, i.shape[0])),
                 lambda x, i: x.slice_scatter(x.narrow(dim, 0, 1), dim, -1)]
    return [x, index], d.random.choice(functions)


@op("rough")
def scatter_sum(d):
    x = d.value(is_number, least_rank=1)
    dim = d.dim(x)
    index = d.indices(d.extent(x, dim), tuple(x.shape))
    row = d.indices(d.extent(x, dim), (d.extent(x, dim),))
    functions = [lambda x, i, r: x.scatter_add(dim, i, x), lambda x, i, r: x.index_add(dim, r, x),
                 lambda x, i, r: x.scatter_reduce(dim, i, x, "amax"),
                 lambda x, i, r: torch.zeros_like(x).scatter_add(dim, i, x)]
    return [x, index, row], d.random.choice(functions)


@op("copy")
def index_put(d):
    x = d.value(is_number, least_rank=1)
    index = d.places(d.extent(x, 0))
    functions = [lambda x, i: x.index_put((i,), x.flip(0)[:i.shape[0]]),
                 lambda x, i: write(x, lambda y: y.__setitem__(i, 0)),
                 lambda x, i: write(x, lambda y: y.index_put_((i,), x[:1])),
                 lambda x, i: write(x, lambda y: y.index_copy_(0, i, x.flip(0)[:i.shape[0]]))]
    return [x, index], d.random.choice(functions)


@op("rough")
def index_put_sum(d):
    x = d.value(is_number, least_rank=1)
    index = d.indices(d.extent(x, 0), (5,))
    return [x, index], lambda x, i: x.index_put((i,), x[:1].expand(5, *x.shape[1:]), accumulate=True)


@op("copy")
def embed(d):
    index = d.value(lambda v: is_integer(v) and v.dtype in (torch.int64, torch.int32))
    table = d.parameter((7, 5), d.random.choice([torch.float32, torch.bfloat16]))
    functions = [lambda i, t: functional.embedding(i % 7, t),
                 lambda i, t: functional.embedding(i % 7, t, padding_idx=0),
                 lambda i, t: t[i % 7], lambda i, t: functional.one_hot(i % 7, 7)]
    return [index, table], d.random.choice(functions)


# In-place operators on a fresh tensor, also through a view of it


def write(x, change):
    fresh = x.clone()
    change(fresh)
    return fresh


@op("rough")
def write_in_place(d):
    x, y = d.broadcastable(2, is_number)
    changes = [lambda f, y: f.add_(1), lambda f, y: f.mul_(y), lambda f, y: f.sub_(y, alpha=2),
               lambda f, y: f.add_(y), lambda f, y: f.zero_(), lambda f, y: f.fill_(2),
               lambda f, y: f.copy_(y), lambda f, y: f.neg_(),
               lambda f, y: f.clamp_(-1, 1), lambda f, y: f.masked_fill_(y > 0, 3), lambda f, y: f.div_(2),
               lambda f, y: f.tril_(), lambda f, y: f.exp_(), lambda f, y: f.sigmoid_(), lambda f, y: f.relu_(),
               lambda f, y: f.pow_(2), lambda f, y: f.tanh_(), lambda f, y: f.abs_(), lambda f, y: f.sqrt_(),
               lambda f, y: f.mul_(0.5), lambda f, y: functional.silu(f, inplace=True), lambda f, y: f.addcmul_(y, y)]
    change = d.random.choice(changes)
    return [x, y], lambda x, y: write(x, lambda f: change(f, y))


OPS_AGAIN.append(op("rough")(write_in_place))


@op("rough")
def write_through_view(d):
    x = d.value(is_number, least_rank=1)
    number = d.random.choice([1, 2.5, -3])
    changes = [lambda f: f[0].mul_(number), lambda f: f[..., 1:].add_(number),
               lambda f: f.transpose(0, -1).copy_(f.sum(0)),
               lambda f: f.view(-1)[::2].fill_(number), lambda f: f.select(-1, 0).zero_(),
               lambda f: f.narrow(0, 0, 1).copy_(f[-1:]), lambda f: f.__setitem__((Ellipsis, 0), number),
               lambda f: f.diagonal().add_(number), lambda f: f.unbind(0)[0].mul_(number),
               lambda f: f.split(1, 0)[-1].sub_(number), lambda f: f.unsqueeze(0).mul_(2),
               lambda f: f.expand_as(f).mul_(number)]
    change = d.random.choice(changes)

    def run(x):
        fresh = x.clone(memory_format=torch.contiguous_format)
        before = fresh.reshape(-1)[:1] * 1
        change(fresh)
        return fresh, before
    return [x], run


# Tensors that are made, types, sizes


@op("copy")
def make(d):
    x = d.value(least_rank=1)
    number = d.random.choice([0, 1.5, -2, True])
    functions = [torch.zeros_like, torch.ones_like, lambda x: torch.full_like(x, number),
                 lambda x: torch.arange(x.shape[0]), lambda x: torch.arange(1, x.shape[0] + 1, dtype=torch.float32),
                 lambda x: torch.full((x.shape[0], 2), number), lambda x: torch.zeros(x.shape[-1], dtype=x.dtype),
                 lambda x: x.new_zeros(2, x.shape[0]), lambda x: x.new_ones(x.shape[0]), lambda x: x.new_full((3,), 2),
                 lambda x: torch.arange(0, x.shape[0], 2), lambda x: torch.ones(3, x.shape[0], dtype=torch.bool),
                 lambda x: torch.eye(3, dtype=torch.float32), lambda x: torch.scalar_tensor(number),
                 lambda x: torch.zeros(x.shape[0], 0), lambda x: x.new_empty(2).fill_(1),
                 lambda x: torch.tensor(number),
                 lambda x: torch.linspace(0, 1, 5), lambda x: torch.tensor([1, 2, 3]) + x.shape[0]]
    return [x], d.random.choice(functions)


OPS_AGAIN.append(op("copy")(make))


@op("rough")
def size_as_number(d):
    x = d.value(is_float, least_rank=1)
    functions = [lambda x: x * x.shape[0], lambda x: x + x.shape[-1], lambda x: x / (x.shape[0] + 1),
                 lambda x: x.sum() / max(x.numel(), 1), lambda x: x * (x.shape[0] // 2 + 1),
                 lambda x: x * (x.shape[-1] ** -0.5 if x.shape[-1] else 1.0), lambda x: x - x.shape[0] % 3]
    return [x], d.random.choice(functions)


# A varying size n as files hold it: numbers, and truths that choose between two of them. Each stands with the function
# that its node calls: what this PyTorch cannot save is not drawn.
SIZE_ARITHMETIC = [function for called, function in (
    (operator.add, lambda n: n + 2), (operator.sub, lambda n: n - 3), (operator.mul, lambda n: 2 * n),
    (operator.floordiv, lambda n: n // 2), (operator.truediv, lambda n: n / 4), (operator.mod, lambda n: n % 3),
    (operator.pow, lambda n: n ** 2), (operator.lshift, lambda n: n << 1), (operator.rshift, lambda n: n >> 1),
    (operator.neg, lambda n: -n), (math.trunc, lambda n: math.trunc(n / 4)),
    (torch.sym_float, lambda n: torch.sym_float(n) * 0.25), (torch.sym_max, lambda n: torch.sym_max(n, 5)),
    (torch.sym_min, lambda n: torch.sym_min(n, 5)), (torch.sym_sqrt, lambda n: torch.sym_sqrt(n)),
    (operator.and_, lambda n: n & 3), (operator.or_, lambda n: n | 4)) if called in SAVED_SIZE_OPERATORS]
SIZE_TRUTHS = [function for called, function in (
    (operator.eq, lambda n: n == 4), (operator.ne, lambda n: n != 4), (operator.lt, lambda n: n < 5),
    (operator.le, lambda n: n <= 4), (operator.gt, lambda n: n > 4), (operator.ge, lambda n: n >= 9),
    (torch.sym_not, lambda n: torch.sym_not(n == 9)), (operator.and_, lambda n: (n > 2) & (n < 9)),
    (operator.or_, lambda n: (n < 4) | (n > 4))) if called in SAVED_SIZE_OPERATORS]


@op("rough")
def size_arithmetic(d):
    """Sizes that vary stay in the graph as nodes; others would be plain numbers in it."""
    def varying(value):
        return [dim for dim in range(value.rank) if d.varies(value, dim)]
    x = d.value(lambda value: is_float(value) and varying(value))
    dim = d.random.choice(varying(x))
    numbers, truth = d.random.sample(SIZE_ARITHMETIC, 3), d.random.choice(SIZE_TRUTHS)

    def run(x):
        n = x.shape[dim]
        one, two, three = (number(n) for number in numbers)
        return x * one + two, x + three, x * torch.sym_ite(truth(n), 2, 3)
    return [x], run


# Only modules with a varying extent can take it, and its functions are many.
OPS_AGAIN.extend(op("rough")(size_arithmetic) for _ in range(5))


@op("rough")
def cast(d):
    x = d.value()
    wanted = d.random.choice([torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16])
    functions = [lambda x: x.to(wanted), lambda x: x.type_as(torch.zeros((), dtype=wanted)), torch.Tensor.float,
                 torch.Tensor.double, lambda x: x.to(wanted, copy=True), lambda x: x.to(torch.zeros((), dtype=wanted)),
                 lambda x: x.to(device="cpu", dtype=wanted), lambda x: x.to("cpu"),
                 lambda x: torch.ops.aten._to_copy(x, dtype=wanted),
                 lambda x: torch.ops.aten.to.dtype_layout(x, dtype=wanted, layout=torch.strided)]
    return [x], d.random.choice(functions)


OPS_AGAIN.append(op("rough")(cast))


@op("jump")
def cast_to_integer(d):
    x = d.value()
    wanted = d.random.choice([torch.int64, torch.int32, torch.bool, torch.uint8, torch.int8, torch.int16])
    functions = [lambda x: x.to(wanted), torch.Tensor.long, torch.Tensor.int, torch.Tensor.bool]
    return [x], d.random.choice(functions)


@op("rough")
def several_uses(d):
    """One value used in several places, and a result that nobody uses."""
    x = d.value(lambda v: is_float(v))

    def run(x):
        y = x.sigmoid()
        _ = y.exp()
        return x + y * x, y
    return [x], run
