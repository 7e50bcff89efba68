"""The operators that random graphs are drawn from.

A drawing function takes a `Draw` and returns (operands, function): the function is called with the operands' tensors
and gives a tensor or a tuple of them. It may draw what turns out wrong for the shapes at hand; the step is then thrown
away.

Each is of one kind, which decides how exactly a result can be compared:
  copy   the result holds operand values as they are, or is monotonic and rounds nothing
  rough  the result is rounded: another correct implementation may differ in the last digits
  jump   a small change of an operand may change the result much (floor, remainder): operands must be exact
Integer and boolean results are exact; generation throws a step away that derives them from rough operands.
"""

import torch
from torch.nn import functional

OPS = []


class Retry(Exception):
    """No operand fits."""


def op(kind):
    def register(draw):
        OPS.append((kind, draw))
        return draw
    return register


def is_float(value):
    return value.dtype.is_floating_point


def is_finite_float(value):
    return is_float(value) and all(tensor.isfinite().all() for tensor in value.tensors)


def is_integer(value):
    return not value.dtype.is_floating_point and value.dtype != torch.bool


def is_bool(value):
    return value.dtype == torch.bool


def is_number(value):
    return value.dtype != torch.bool


def unary(kind, wanted, functions):
    def draw(d):
        return [d.value(wanted)], d.random.choice(functions)
    OPS.extend([(kind, draw)] * max(1, len(functions) // 3))


ROUGH_UNARY = [
    torch.exp, torch.log, torch.log1p, torch.expm1, torch.sqrt, torch.rsqrt, torch.sin, torch.cos, torch.tan,
    torch.tanh, torch.sinh, torch.cosh, torch.asin, torch.acos, torch.atan, torch.sigmoid, torch.erf, torch.exp2,
    torch.log2, torch.log10, torch.reciprocal, torch.square, functional.gelu, functional.silu, functional.softplus,
    functional.elu, functional.mish, functional.hardswish, functional.hardsigmoid, functional.leaky_relu,
    functional.selu, functional.celu, functional.logsigmoid, functional.softsign,
    lambda x: functional.gelu(x, approximate="tanh"), lambda x: functional.leaky_relu(x, 0.2),
    lambda x: functional.elu(x, alpha=0.7), lambda x: functional.softplus(x, beta=2.0, threshold=3.0)]
unary("rough", is_float, ROUGH_UNARY)
unary("copy", is_number, [torch.neg, torch.abs, torch.relu, torch.positive, torch.clone, torch.Tensor.contiguous,
                          torch.detach, lambda x: functional.dropout(x, 0.3, training=False)])
unary("copy", is_float, [functional.hardtanh, functional.relu6, lambda x: functional.threshold(x, 0.25, -1.0),
                         lambda x: functional.hardtanh(x, -0.5, 2.0), torch.nan_to_num])
unary("jump", is_float, [torch.floor, torch.ceil, torch.round, torch.trunc, torch.sign, torch.sgn])
unary("copy", is_number, [torch.isnan, torch.isinf, torch.isfinite, torch.logical_not, torch.signbit])
unary("copy", lambda v: not is_float(v), [torch.bitwise_not, torch.logical_not])

SAME_OR_ROUGH_BINARY = [
    torch.add, torch.sub, torch.mul, torch.div, torch.rsub, lambda x, y: torch.add(x, y, alpha=2),
    lambda x, y: torch.sub(x, y, alpha=3), lambda x, y: torch.true_divide(x, y), torch.atan2, torch.hypot,
    lambda x, y: torch.lerp(x, y, 0.3), lambda x, y: torch.addcmul(x, x, y, value=0.5),
    lambda x, y: torch.addcdiv(x, y, y.abs() + 1, value=2)]


@op("rough")
def binary(d):
    return d.broadcastable(2, is_number), d.random.choice(SAME_OR_ROUGH_BINARY)


OPS.extend([("rough", binary)] * 4)


@op("copy")
def extremes(d):
    return d.broadcastable(2, is_number), d.random.choice([torch.maximum, torch.minimum, torch.fmax, torch.fmin])


@op("rough")
def mixed_types(d):
    """Type promotion between any two."""
    return d.broadcastable(2, lambda v: True), d.random.choice([torch.add, torch.mul, torch.Tensor.__truediv__])


@op("jump")
def integer_division(d):
    functions = [torch.remainder, torch.floor_divide, torch.fmod, lambda x, y: torch.div(x, y, rounding_mode="floor"),
                 lambda x, y: torch.div(x, y, rounding_mode="trunc")]
    return d.broadcastable(2, is_number), d.random.choice(functions)


@op("jump")
def integer_division_by_number(d):
    number = d.random.choice([2, 3, -3, 0.75, 5])
    functions = [lambda x: x % number, lambda x: x // number, lambda x: torch.fmod(x, number),
                 lambda x: torch.div(x, number, rounding_mode="floor"), lambda x: number % x]
    return [d.value(is_number)], d.random.choice(functions)


@op("rough")
def number_in_tensor_slot(d):
    number = d.random.choice([2, -3, 0, 1, 0.5, -1.25, True, False, 7])
    functions = [lambda x: x + number, lambda x: number - x, lambda x: x * number, lambda x: x - number,
                 lambda x: x / (number or 4), lambda x: number / x, lambda x: torch.add(x, number, alpha=2),
                 lambda x: torch.rsub(x, number, alpha=2)]
    return [d.value(is_number)], d.random.choice(functions)


OPS.extend([("rough", number_in_tensor_slot)] * 2)


@op("copy")
def compare(d):
    functions = [torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge]
    return d.broadcastable(2, lambda v: True), d.random.choice(functions)


OPS.append(("copy", compare))


@op("copy")
def compare_with_number(d):
    number = d.random.choice([0, 1, -1, 0.5, True])
    functions = [lambda x: x == number, lambda x: x != number, lambda x: x < number, lambda x: x <= number,
                 lambda x: x > number, lambda x: number > x, lambda x: x >= number]
    return [d.value()], d.random.choice(functions)


OPS.append(("copy", compare_with_number))


@op("copy")
def logic(d):
    functions = [torch.logical_and, torch.logical_or, torch.logical_xor]
    return d.broadcastable(2, lambda v: True), d.random.choice(functions)


@op("copy")
def bits(d):
    functions = [torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor, lambda x, y: x & 5, lambda x, y: x | 1,
                 lambda x, y: x ^ True]
    return d.broadcastable(2, lambda v: not is_float(v)), d.random.choice(functions)


@op("copy")
def shift(d):
    functions = [lambda x: (x & 63) << 2, lambda x: x >> 1, lambda x: torch.bitwise_left_shift(x & 15, 1)]
    return [d.value(is_integer)], d.random.choice(functions)


@op("copy")
def where(d):
    condition, x, y = d.broadcastable(3, [is_bool, is_number, is_number])
    functions = [torch.where, lambda c, x, y: torch.where(c, x, 0), lambda c, x, y: torch.where(c, 1.5, y),
                 lambda c, x, y: torch.where(c, x, -1.0)]
    return [condition, x, y], d.random.choice(functions)


@op("copy")
def masked_fill(d):
    number = d.random.choice([0, 1, -2.5, float("-inf")])
    return d.broadcastable(2, [is_number, is_bool]), lambda x, mask: x.masked_fill(mask, number)


@op("copy")
def clamp(d):
    functions = [lambda x: x.clamp(-1, 2), lambda x: x.clamp(min=0), lambda x: x.clamp(max=0.5),
                 lambda x: torch.clamp(x, min=-0.25, max=1.5), lambda x: x.clamp_min(1), lambda x: x.clamp_max(1)]
    return [d.value(is_number)], d.random.choice(functions)


@op("copy")
def clamp_by_tensor(d):
    functions = [lambda x, low: torch.clamp(x, min=low), lambda x, high: torch.clamp(x, max=high),
                 lambda x, y: torch.clamp(x, min=y, max=y + 1)]
    return d.broadcastable(2, is_number), d.random.choice(functions)


@op("rough")
def power(d):
    functions = [lambda x: x ** 2, lambda x: x ** 3, lambda x: x.abs() ** 0.5, lambda x: x.abs().pow(-0.5),
                 lambda x: 2 ** x, lambda x: 1.5 ** x, lambda x: x.abs().pow(1.7), lambda x: x ** 0]
    return [d.value(is_number)], d.random.choice(functions)


@op("rough")
def power_of_tensors(d):
    return d.broadcastable(2, is_float), lambda x, y: torch.pow(x.abs() + 0.5, y)


# Reductions


@op("rough")
def reduce_dims(d):
    x = d.value(is_number, least_rank=1)
    dims, keep = d.dims(x), d.flag()
    functions = [lambda x: x.sum(dims, keepdim=keep), lambda x: x.sum(dims[0], keepdim=keep),
                 lambda x: x.float().mean(dims, keepdim=keep), lambda x: x.prod(dims[0], keepdim=keep),
                 lambda x: x.sum(dims, keepdim=keep, dtype=torch.float32)]
    return [x], d.random.choice(functions)


@op("rough")
def reduce_floats(d):
    x = d.value(is_float, least_rank=1)
    dims, keep = d.dims(x), d.flag()
    functions = [lambda x: x.mean(dims, keepdim=keep), lambda x: x.var(dims, keepdim=keep, unbiased=False),
                 lambda x: x.std(dims, keepdim=keep), lambda x: torch.logsumexp(x, dims, keepdim=keep),
                 lambda x: torch.linalg.vector_norm(x, dim=dims, keepdim=keep),
                 lambda x: torch.linalg.vector_norm(x, ord=1, dim=dims, keepdim=keep),
                 lambda x: x.norm(p=2, dim=dims[0], keepdim=keep), lambda x: x.var(dims, correction=1, keepdim=keep),
                 lambda x: torch.var_mean(x, dims, keepdim=keep)]
    return [x], d.random.choice(functions)


@op("rough")
def reduce_all(d):
    functions = [torch.sum, lambda x: x.float().mean(), lambda x: x.double().var(unbiased=False)]
    return [d.value(is_number)], d.random.choice(functions)


@op("copy")
def reduce_extremes(d):
    x = d.value(is_number, least_rank=1)
    dims, keep = d.dims(x), d.flag()
    functions = [lambda x: x.amax(dims, keepdim=keep), lambda x: x.amin(dims, keepdim=keep), torch.max, torch.min,
                 lambda x: x.max(dims[0], keepdim=keep).values, lambda x: x.min(dims[0], keepdim=keep).values,
                 lambda x: torch.aminmax(x, dim=dims[0], keepdim=keep)]
    return [x], d.random.choice(functions)


OPS.append(("copy", reduce_extremes))


@op("copy")
def reduce_logic(d):
    x = d.value(least_rank=1)
    dim, keep = d.dim(x), d.flag()
    functions = [lambda x: x.any(dim, keepdim=keep), lambda x: x.all(dim, keepdim=keep), torch.any, torch.all]
    return [x], d.random.choice(functions)


@op("copy")
def argmax(d):
    """Of distinct values only: which of equal ones is taken is not defined."""
    x = d.value(lambda v: v.distinct and is_number(v), least_rank=1)
    dim, keep = d.dim(x), d.flag()
    functions = [lambda x: x.argmax(dim, keepdim=keep), lambda x: x.argmin(dim, keepdim=keep), torch.argmax,
                 lambda x: x.argsort(dim), lambda x: x.max(dim).indices]
    return [x], d.random.choice(functions)


@op("copy")
def order(d):
    x = d.value(is_number, least_rank=1)
    dim, descending = d.dim(x), d.flag()
    count = d.random.randint(0, max(1, d.extent(x, dim)))
    functions = [lambda x: x.sort(dim, descending=descending).values,
                 lambda x: torch.sort(x, stable=True, dim=dim, descending=descending),
                 lambda x: x.topk(count, dim, largest=descending).values]
    return [x], d.random.choice(functions)


@op("rough")
def cumulative(d):
    x = d.value(is_number, least_rank=1)
    dim = d.dim(x)
    functions = [lambda x: x.cumsum(dim), lambda x: x.cumsum(dim, dtype=torch.float32), lambda x: x.cumprod(dim)]
    return [x], d.random.choice(functions)


@op("rough")
def softmax(d):
    x = d.value(is_float, least_rank=1)
    dim = d.dim(x)
    functions = [lambda x: x.softmax(dim), lambda x: x.log_softmax(dim),
                 lambda x: functional.softmax(x, dim, dtype=torch.float32), lambda x: functional.softmin(x, dim)]
    return [x], d.random.choice(functions)


# Norms and linear algebra


@op("rough")
def normalize_last(d):
    x = d.value(is_float, least_rank=1)
    count = d.random.randint(1, min(2, x.rank))
    shape = x.shape[-count:]
    weight, bias = d.parameter(shape, x.dtype), d.parameter(shape, x.dtype)
    functions = [lambda x, w, b: functional.layer_norm(x, w.shape, w, b, 1e-5),
                 lambda x, w, b: functional.layer_norm(x, w.shape),
                 lambda x, w, b: functional.rms_norm(x, w.shape, w, 1e-6),
                 lambda x, w, b: functional.layer_norm(x, w.shape, w), lambda x, w, b: functional.rms_norm(x, w.shape)]
    return [x, weight, bias], d.random.choice(functions)


@op("rough")
def normalize_channels(d):
    x = d.value(is_float, least_rank=3)
    channels = x.shape[1]
    groups = d.random.choice([n for n in range(1, channels + 1) if channels % n == 0] or [1])
    operands = [x] + [d.parameter((channels,), x.dtype) for _ in range(3)] + [d.parameter((channels,), x.dtype, 0.5)]
    functions = [lambda x, w, b, m, v: functional.group_norm(x, groups, w, b),
                 lambda x, w, b, m, v: functional.batch_norm(x, m, v, w, b, training=False),
                 lambda x, w, b, m, v: functional.instance_norm(x, weight=w, bias=b),
                 lambda x, w, b, m, v: functional.normalize(x, dim=1)]
    return operands, d.random.choice(functions)


@op("rough")
def linear(d):
    x = d.value(is_float, least_rank=1)
    outputs = d.random.choice([1, 3, 8])
    weight, bias = d.parameter((outputs, x.shape[-1]), x.dtype), d.parameter((outputs,), x.dtype)
    functions = [lambda x, w, b: functional.linear(x, w, b), lambda x, w, b: functional.linear(x, w),
                 lambda x, w, b: x @ w.t(), lambda x, w, b: torch.matmul(x, w.transpose(0, 1)) + b]
    return [x, weight, bias], d.random.choice(functions)


@op("rough")
def multiply_matrices(d):
    x = d.value(is_float, least_rank=2)
    other = d.parameter((x.shape[-1], d.random.choice([1, 4, 5])), x.dtype)
    bias = d.parameter((other.shape[1],), x.dtype)
    functions = [lambda x, y, b: x @ y, lambda x, y, b: x.flatten(0, -2).mm(y),
                 lambda x, y, b: torch.addmm(b, x.flatten(0, -2), y), lambda x, y, b: x.mT @ x,
                 lambda x, y, b: torch.addmm(b, x.flatten(0, -2), y, beta=0.5, alpha=2),
                 lambda x, y, b: torch.mv(x.flatten(0, -2), y[:, 0]), lambda x, y, b: torch.outer(b, y[:, 0])]
    return [x, other, bias], d.random.choice(functions)


@op("rough")
def multiply_batches(d):
    x = d.value(is_float, rank=3)
    functions = [lambda x: torch.bmm(x, x.transpose(1, 2)), lambda x: torch.baddbmm(x[:, :1, :1], x, x.mT),
                 lambda x: torch.baddbmm(x[:, :1, :1], x, x.mT, beta=0.5, alpha=2),
                 lambda x: torch.einsum("bij,bkj->bik", x, x), lambda x: torch.einsum("bij->bji", x),
                 lambda x: torch.einsum("bij,bij->bi", x, x), lambda x: torch.matmul(x.unsqueeze(1), x.mT)]
    return [x], d.random.choice(functions)


OPS.append(("rough", multiply_batches))


@op("rough")
def attention(d):
    # libtorch's kernels differ over NaN: contiguous rows that meet one are zero in places, others are NaN throughout.
    x = d.value(is_finite_float, rank=3)
    key = d.parameter((4, x.shape[-1]), x.dtype)
    mask = d.parameter((x.shape[1], x.shape[1]), x.dtype) if not d.varies(x, 1) else key

    def heads(x):
        return x.unsqueeze(1)
    functions = [
        lambda x, k, m: functional.scaled_dot_product_attention(heads(x), heads(x), heads(x)),
        lambda x, k, m: functional.scaled_dot_product_attention(heads(x), heads(x), heads(x), is_causal=True),
        lambda x, k, m: functional.scaled_dot_product_attention(heads(x), k.expand(x.shape[0], 1, -1, -1),
                                                                k.expand(x.shape[0], 1, -1, -1), scale=0.3),
        lambda x, k, m: functional.scaled_dot_product_attention(heads(x), heads(x), heads(x), attn_mask=m),
        lambda x, k, m: functional.scaled_dot_product_attention(heads(x), heads(x), heads(x), attn_mask=m > 0)]
    return [x, key, mask], d.random.choice(functions)


@op("rough")
def convolve_lines(d):
    x = d.value(is_float, rank=3)
    outputs, size = d.random.choice([1, 4]), d.random.choice([1, 2, 3])
    weight, bias = d.parameter((outputs, x.shape[1], size), x.dtype), d.parameter((outputs,), x.dtype)
    stride, padding, dilation = d.random.choice([1, 2]), d.random.choice([0, 1, "same", 2]), d.random.choice([1, 2])
    stride = 1 if padding == "same" else stride
    return [x, weight, bias], lambda x, w, b: functional.conv1d(x, w, b, stride, padding, dilation)


@op("rough")
def convolve_images(d):
    x = d.value(is_float, rank=4)
    channels = x.shape[1]
    groups = d.random.choice([1, channels])
    size, stride, padding = d.random.choice([1, 2, 3]), d.random.choice([1, 2]), d.random.choice([0, 1, (0, 2)])
    outputs = channels * d.random.choice([1, 2])
    weight = d.parameter((outputs, channels // max(groups, 1), size, size), x.dtype)
    bias = d.parameter((outputs,), x.dtype)
    functions = [lambda x, w, b: functional.conv2d(x, w, b, stride, padding, 1, groups),
                 lambda x, w, b: functional.conv2d(x, w, None, stride, padding, 1, groups),
                 lambda x, w, b: functional.conv_transpose2d(x, w.transpose(0, 1), None, stride) if groups == 1 else x]
    return [x, weight, bias], d.random.choice(functions)


@op("rough")
def pool(d):
    x = d.value(is_float, rank=4)
    size, stride = d.random.choice([1, 2, 3]), d.random.choice([1, 2])
    functions = [lambda x: functional.max_pool2d(x, size, stride), lambda x: functional.avg_pool2d(x, size, stride),
                 lambda x: functional.adaptive_avg_pool2d(x, (1, 1)), lambda x: functional.adaptive_avg_pool2d(x, 2),
                 lambda x: functional.max_pool2d(x, 3, 2, 1), lambda x: functional.avg_pool2d(x, 3, 2, 1, True, False),
                 lambda x: functional.interpolate(x, scale_factor=2.0, mode="nearest"),
                 lambda x: functional.pixel_unshuffle(x, 1)]
    return [x], d.random.choice(functions)


@op("rough")
def stretch(d):
    # A GPU multiplies a neighbour that counts nothing by 0, which keeps its NaN; a CPU leaves it out.
    x = d.value(is_finite_float, rank=4)
    return [x], lambda x: functional.interpolate(x, size=(4, 5), mode="bilinear", align_corners=False)


@op("rough")
def pool_lines(d):
    functions = [lambda x: functional.max_pool1d(x, 2), lambda x: functional.avg_pool1d(x, 2, 1),
                 lambda x: functional.adaptive_avg_pool1d(x, 1)]
    return [d.value(is_float, rank=3)], d.random.choice(functions)
