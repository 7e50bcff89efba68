"""The cases of amd_emulate.py: inputs, calls and references in float64, for the kernels of src/kernels/gpu.

Those of norms, of tensors with any strides and of weights of few bits are in files of their own beside this one.

A case's error is a part of what is allowed: one rounding of the result's type, and a slack for sums in float32.
"""

import math
import zlib

import numpy as np

SUFFIXES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "e4m3": "float8_e4m3fn",
            "e4m3fnuz": "float8_e4m3fnuz", "e5m2": "float8_e5m2", "e5m2fnuz": "float8_e5m2fnuz"}
FLOATS = ("f32", "f16", "bf16")
FP8 = ("e4m3", "e4m3fnuz", "e5m2", "e5m2fnuz")
STORAGE = {"float32": np.float32, "float16": np.float16, "bfloat16": np.uint16, "int8": np.int8}
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
# Bits of the mantissa, and the exponent of the smallest step.
PRECISION = {"float32": (23, -149), "float16": (10, -24), "bfloat16": (7, -133), "float8_e4m3fn": (3, -9),
             "float8_e4m3fnuz": (3, -10), "float8_e5m2": (2, -16), "float8_e5m2fnuz": (2, -17)}
LARGEST = {"int8": 127.0, "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0,
           "float8_e5m2fnuz": 57344.0}
ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "hardswish", "hardsigmoid", "relu6")


class NotJudged(Exception):
    """What the emulator as it is does otherwise than the hardware."""


def stable_hash(text):
    return zlib.crc32(text.encode())


def fp8_values(dtype):
    """The number of each of the 256 codes."""
    exponent_bits, mantissa_bits = (4, 3) if "e4m3" in dtype else (5, 2)
    fnuz = dtype.endswith("fnuz")
    bias = (1 << (exponent_bits - 1)) - (0 if fnuz else 1)
    values = np.zeros(256)
    for code in range(256):
        sign = -1.0 if code & 0x80 else 1.0
        exponent, mantissa = (code & 0x7F) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
        if exponent == 0:
            values[code] = sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
        else:
            values[code] = sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)
        if fnuz and code == 0x80:
            values[code] = np.nan
        if dtype == "float8_e4m3fn" and code & 0x7F == 0x7F:
            values[code] = np.nan
        if dtype == "float8_e5m2" and exponent == 31:
            values[code] = np.nan if mantissa else sign * np.inf
    return values


def decode(dtype, stored):
    if dtype == "bfloat16":
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype.startswith("float8"):
        return fp8_values(dtype)[stored]
    return stored.astype(np.float64)


def encode(dtype, values):
    """Rounds inputs to a type; FP8 inputs are drawn as codes instead."""
    if dtype == "bfloat16":
        bits = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)
    return np.asarray(values).astype(STORAGE[dtype])


def poisoned(dtype, shape):
    storage = np.dtype(STORAGE.get(dtype, np.uint8))
    return np.full(np.prod(shape, dtype=int) * storage.itemsize, 0xFF, np.uint8).view(storage).reshape(shape)


def error_of(dtype, stored, wanted, slack=1e-6):
    """The largest error as a part of half a step of the type plus `slack` (an array, or a part of the value)."""
    got, wanted = decode(dtype, np.asarray(stored)), np.array(wanted, np.float64)
    if got.shape != wanted.shape:
        raise AssertionError(f"shape {got.shape} instead of {wanted.shape}")
    if dtype in LARGEST:
        wanted = np.clip(wanted, -LARGEST[dtype], LARGEST[dtype])
    if dtype == "int8":
        half = np.full(wanted.shape, 0.5)
    else:
        mantissa, smallest = PRECISION[dtype]
        _, exponent = np.frexp(np.where(np.isfinite(wanted), wanted, 0))
        half = np.ldexp(0.5, np.maximum(exponent - 1 - mantissa, smallest))
    slack = slack if isinstance(slack, np.ndarray) else slack * np.abs(np.nan_to_num(wanted, posinf=0, neginf=0))
    same = (np.isnan(got) & np.isnan(wanted)) | (got == wanted)
    with np.errstate(invalid="ignore"):
        part = np.where(same, 0.0, np.abs(got - wanted) / (half + slack + 1e-300))
    return float(np.nan_to_num(part, nan=np.inf).max(initial=0))


class Case:
    def __init__(self, kernel, label, function, **arguments):
        self.kernel, self.label = kernel, f"{kernel}: {label}"
        self.function, self.arguments = function, arguments

    def run(self, device, random):
        return self.function(device, random, **self.arguments)


def normal(random, dtype, shape, spread=1.0, center=0.0):
    """Without subnormal numbers of float16: the emulator's matrix instructions flush them; so does CDNA2, not CDNA3."""
    values = random.normal(center, spread, shape)
    return encode(dtype, np.where(np.abs(values) < 2.0**-13, 0.0, values))


def activate(name, x):
    if name == "relu":
        return np.where(x < 0, 0, x)
    if name == "gelu":
        return 0.5 * x * np.vectorize(math.erfc)(-x / math.sqrt(2))
    if name == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    if name == "silu":
        return x / (1 + np.exp(-x))
    if name == "sigmoid":
        return 1 / (1 + np.exp(-x))
    if name == "tanh":
        return np.tanh(x)
    if name == "hardswish":
        return x * np.clip(x + 3, 0, 6) / 6
    if name == "hardsigmoid":
        return np.clip(x + 3, 0, 6) / 6
    return np.clip(x, 0, 6) if name == "relu6" else x


def softmax(device, random, type, queries, width, mask, causal, heads=2, gap=0):
    dtype, batches = SUFFIXES[type], 1
    rows = batches * heads * queries
    x = device.array(normal(random, dtype, (rows, width + gap), 3))
    output = device.array(poisoned(dtype, (rows, width)))
    scores = (decode(dtype, x)[:, :width] * 0.5).reshape(batches, heads, queries, width)
    members = {}
    if mask == "bool":
        kept = random.random((queries, width)) < 0.7
        kept[0] = False  # a row of which nothing takes part
        members = dict(mask=device.array(kept.astype(np.uint8)), mask_dtype="bool", mask_query_stride=width)
        scores = np.where(kept, scores, -np.inf)
    elif mask:
        mask_type = dtype if mask == "own" else "float32"
        added = normal(random, mask_type, (batches, 1, queries, width))
        members = dict(mask=device.array(added), mask_dtype=mask_type, mask_query_stride=width)
        scores = scores + decode(mask_type, added)
    offset = 1
    if causal:
        scores = np.where(np.arange(width) <= np.arange(queries)[:, None] + offset, scores, -np.inf)
    device.run("softmax", dtype=dtype, input=x, output=output, batches=batches, heads=heads, queries=queries,
               width=width, input_stride=width + gap, scale=0.5, causal=causal, causal_offset=offset, **members)
    top = scores.max(-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        powers = np.where(np.isfinite(scores), np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = powers.sum(-1, keepdims=True)
    wanted = np.where(total > 0, powers / np.where(total > 0, total, 1), 0)
    return error_of(dtype, output, wanted.reshape(rows, width), 2e-5 * wanted.reshape(rows, width) + 1e-7)


def rotary(device, random, type, width, interleaved, inverse, table):
    dtype, table_type, sizes = SUFFIXES[type], SUFFIXES[table], (2, 3, 5)
    x = device.array(normal(random, dtype, (*sizes, width)))
    cos, sin = (device.array(normal(random, table_type, (sizes[2], width))) for _ in range(2))
    result = device.array(poisoned(dtype, (*sizes, width)))
    strides = (sizes[1] * sizes[2] * width, sizes[2] * width, width)
    device.run("rotary", dtype=dtype, table_dtype=table_type, input=x, cosines=cos, sines=sin, result=result,
               sizes=sizes, width=width, input_strides=strides, cosine_strides=(0, 0, width), sine_strides=(0, 0,
               width), interleaved=interleaved, inverse=inverse)
    values, c, s = decode(dtype, x), decode(table_type, cos), decode(table_type, sin)
    first = slice(0, None, 2) if interleaved else slice(0, width // 2)
    second = slice(1, None, 2) if interleaved else slice(width // 2, None)
    a, b, wanted = values[..., first], values[..., second], np.empty_like(values)
    if inverse:
        wanted[..., first] = a * c[:, first] + b * s[:, second]
        wanted[..., second] = b * c[:, second] - a * s[:, first]
    else:
        wanted[..., first] = a * c[:, first] - b * s[:, first]
        wanted[..., second] = b * c[:, second] + a * s[:, second]
    return error_of(dtype, result, wanted, np.full(wanted.shape, 1e-6))


def gated(device, random, type, rows, width, activation):
    dtype = SUFFIXES[type]
    both = device.array(normal(random, dtype, (rows, 2 * width), 2))
    up = both.reshape(-1)[width:]
    output = device.array(poisoned(dtype, (rows, width)))
    device.run("gated", dtype=dtype, activation=ACTIVATIONS.index(activation), gate=both, up=up, output=output,
               rows=rows, width=width, gate_stride=2 * width, up_stride=2 * width)
    values = decode(dtype, both)
    wanted = activate(activation, values[:, :width]) * values[:, width:]
    return error_of(dtype, output, wanted, 2e-5 * np.abs(wanted) + 1e-6)


def bias_activation(device, random, type, rows, width, activation, residual):
    dtype = SUFFIXES[type]
    x, b = device.array(normal(random, dtype, (rows, width), 3)), device.array(normal(random, "float32", width))
    r = device.array(normal(random, dtype, (rows, width))) if residual else None
    output = device.array(poisoned(dtype, (rows, width)))
    device.run("bias_activation", dtype=dtype, activation=ACTIVATIONS.index(activation), input=x, bias=b,
               bias_dtype="float32", residual=r, output=output, rows=rows, width=width, input_stride=width,
               residual_stride=width if residual else 0)
    wanted = activate(activation, decode(dtype, x) + decode("float32", b) + (decode(dtype, r) if residual else 0))
    return error_of(dtype, output, wanted, 2e-5 * np.abs(wanted) + 1e-6)


# Edges that every conversion must survive: zeros, infinities, NaN, ties, what is too large and too small.
EDGES = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 448, 464, 480, 240, 248, 57344, 61440, 65520, 1.0625, 1.1875,
         2.0**-9, 2.0**-10, 3 * 2.0**-11, 2.0**-17, 2.0**-18, 2.0**-24, 2.0**-25, -127.5, 0.5, 1.5, -2.5)


def convert(device, random, source, target, count, row_width, misaligned):
    from_type, to_type = SUFFIXES[source], SUFFIXES[target]
    if from_type.startswith("float8") or from_type == "int8":
        stored = np.resize(np.arange(256), count).astype(np.uint8)
        stored = stored.view(np.int8) if from_type == "int8" else stored
    else:
        values = random.normal(0, 4, count)
        values[: len(EDGES)] = EDGES[:count]
        with np.errstate(over="ignore"):
            stored = encode(from_type, values)
    shift = 1 if misaligned else 0
    x = device.array(np.concatenate([np.zeros(shift, stored.dtype), stored]))[shift:]
    output = device.array(poisoned(to_type, count))
    scaled = source not in FLOATS or target not in FLOATS
    scales = np.array([0.5, 0.37, 1.9, 0.01], np.float32)
    s = device.array(np.resize(scales, count // row_width + 1 if row_width else 1)) if scaled else None
    device.run("convert", **{"from": from_type}, to=to_type, input=x, output=output, count=count, scale=s,
               row_width=row_width)
    values = decode(from_type, stored)
    factor = 1.0
    if scaled:
        factor = decode("float32", s)[np.arange(count) // row_width if row_width else np.zeros(count, int)]
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = values / factor if source in FLOATS else values * factor
        if to_type == "int8":
            wanted = np.nan_to_num(wanted, nan=0.0)
        if to_type == "float16":
            wanted = np.where(np.abs(wanted) >= 65520, np.copysign(np.inf, wanted), wanted)
        if to_type == "float32":
            wanted = wanted.astype(np.float32)
    return error_of(to_type, output, wanted, 0.0 if not scaled else 1e-6)


def quantize_rows(device, random, source, target, rows, width, gap, nan):
    from_type, to_type = SUFFIXES[source], SUFFIXES[target]
    values = random.normal(0, 3, (rows, width + gap))
    values[1] = 0  # a row of zeros
    values[0, 0] = np.inf
    if nan:
        values[2, 1] = np.nan
    x, output = device.array(encode(from_type, values)), device.array(poisoned(to_type, (rows, width)))
    scale = device.array(np.zeros(rows, np.float32))
    device.run("quantize_rows", **{"from": from_type}, to=to_type, input=x, output=output, scale=scale, rows=rows,
               width=width, input_stride=width + gap)
    values = decode(from_type, x)[:, :width]
    top = np.where(np.isfinite(values), np.abs(values), 0).max(1)
    factor = np.where(top == 0, 1.0, top / LARGEST[to_type])
    wanted_scale = np.where(np.isnan(values).any(1), np.nan, factor) if to_type == "int8" else factor
    wanted = values / factor[:, None]
    if to_type == "int8":
        wanted = np.nan_to_num(wanted, nan=0.0)
    lines = ~np.isnan(wanted_scale)  # of a row with NaN in int8 only the scale says something
    return max(error_of("float32", scale, wanted_scale), error_of(to_type, np.asarray(output)[lines], wanted[lines]))


def tensor_scale(device, random, source, target, count):
    from_type, to_type = SUFFIXES[source], SUFFIXES[target]
    values = random.normal(0, 3, count)
    values[count // 2] = np.inf
    x = device.array(encode(from_type, values))
    largest, scale = device.array(np.zeros(1, np.float32)), device.array(np.zeros(1, np.float32))
    members = {"from": from_type, "to": to_type, "input": x, "count": count, "largest": largest, "scale": scale}
    workspace = device.array(np.full(device.workspace("tensor_scale", **members), 0xFF, np.uint8))
    device.run("tensor_scale", **members, workspace=workspace)
    values = decode(from_type, x)
    top = np.abs(values[np.isfinite(values)]).max()
    return max(error_of("float32", largest, [top]), error_of("float32", scale, [top / LARGEST[to_type]]))


def quantize_tensor(device, random, source, rows, width, history, gap=0):
    """`history`: magnitudes of earlier runs, None for no history, an empty list for one that has not begun."""
    from_type, to_type = SUFFIXES[source], SUFFIXES["e4m3"]
    values = random.normal(0, 3, (rows, width + gap))
    values[0, 0], values[-1, width - 1] = -np.inf, np.nan
    x, output = device.array(encode(from_type, values)), device.array(poisoned(to_type, (rows, width)))
    scale = device.array(np.zeros(rows, np.float32))
    members = {"from": from_type, "input": x, "output": output, "scale": scale, "rows": rows, "width": width,
               "input_stride": width + gap}
    ring = device.array(np.array((history or []) + [0] * 4, np.float32)[:4])
    position = device.array(np.array([3], np.int32))
    if history is not None:
        members |= {"history.magnitudes": ring, "history.position": position, "history.capacity": 4,
                    "history.begun": bool(history)}
    before = np.array(ring)
    workspace = device.array(np.full(device.workspace("quantize_tensor", **members), 0xFF, np.uint8))
    device.run("quantize_tensor", **members, workspace=workspace)
    values = decode(from_type, x)[:, :width]
    own = np.abs(values[np.isfinite(values)]).max()
    followed = before.max() if history else own
    factor = np.float64(followed) / LARGEST[to_type]
    errors = [error_of("float32", scale, np.full(rows, factor)), error_of(to_type, output, values / factor)]
    if history is not None:
        before[3] = own  # in the place of the oldest, and the next one is the first
        errors.append(0.0 if np.array_equal(ring, before) and position[0] == 0 else float("inf"))
    return max(errors)


def transpose(device, random, source, target, rows, columns, batches=2):
    from_type, to_type = SUFFIXES.get(source, source), SUFFIXES.get(target, target)
    scaled = to_type in LARGEST and from_type != to_type
    if from_type == to_type == "int8":
        stored = random.integers(-127, 128, (batches, rows, columns)).astype(np.int8)
    else:
        stored = normal(random, from_type, (batches, rows, columns), 4)
    x, output = device.array(stored), device.array(poisoned(to_type, (batches, columns, rows)))
    s = device.array(np.array([0.37], np.float32)) if scaled else None
    device.run("transpose", **{"from": from_type}, to=to_type, input=x, output=output, scale=s, batches=batches,
               rows=rows, columns=columns, input_stride=columns, output_stride=rows, input_batch_stride=rows * columns,
               output_batch_stride=rows * columns)
    wanted = decode(from_type, stored).swapaxes(1, 2) / (decode("float32", s)[0] if scaled else 1.0)
    return error_of(to_type, output, wanted, 1e-6 if scaled else 0.0)


def embedding(device, random, dtype, id_dtype, count, width):
    storage = {"float32": np.float32, "float16": np.uint16, "int8": np.int8}[dtype]
    table = device.array(random.integers(-100, 100, (11, width)).astype(storage))
    ids = random.integers(0, 11, count).astype(np.int64 if id_dtype == "int64" else np.int32)
    ids[-1] = 11  # outside the table
    output = device.array(np.full((count, width), 77).astype(storage))
    flag = device.array(np.zeros(1, np.int32))
    device.run("embedding", dtype=dtype, id_dtype=id_dtype, table=table, ids=device.array(ids), output=output,
               count=count, table_rows=11, width=width, table_stride=width, out_of_range=flag)
    wanted = np.concatenate([np.asarray(table)[ids[:-1]], np.zeros((1, width), storage)])
    return 0.0 if np.array_equal(output, wanted) and flag[0] == 1 else float("inf")


def operand(random, type, shape, fnuz):
    """What matrix instructions multiply: numbers of a type, codes of FP8 that have one."""
    if type == "i8":
        return random.integers(-127, 128, shape).astype(np.int8)
    if type in FP8:
        known = np.isfinite(fp8_values(SUFFIXES[type]))
        if not fnuz:  # the emulator as it is takes all codes for float8_e4m3fn
            known &= np.isfinite(fp8_values("float8_e4m3fn"))
        return random.choice(np.flatnonzero(known).astype(np.uint8), shape)
    return normal(random, SUFFIXES[type], shape)


def matrix(device, random, type, unit, rows, columns, depth, activation, bias, nan=False):
    dtype, narrow = SUFFIXES[type], type not in FLOATS
    weight_type = "e4m3" if type in FP8 else type  # weights are of one kind, whatever the instruction takes
    own, stored = (operand(random, kind, shape, device.fnuz) for kind, shape in ((type, (rows, depth)),
                                                                                 (weight_type, (columns, depth))))
    if nan:  # one in a row of the input, both codes of it in two rows of the weights
        if unit == "cdna3" and not device.fnuz:
            raise NotJudged("the emulator multiplies FP8 of gfx942 as OCP, where the code of NaN is minus zero")
        own[rows // 2, depth // 3] = 0x80 if type == "e4m3fnuz" else 0xFF
        stored[0, depth - 1], stored[columns - 2, 1] = 0x7F, 0xFF
    x, w = device.array(own), device.array(stored)
    output_type = ("bfloat16" if bias == "own" else "float32") if narrow else dtype
    bias_type = "float32" if bias == "float32" else output_type
    b = device.array(normal(random, bias_type, columns)) if bias else None
    added = device.array(normal(random, output_type, (rows, columns))) if activation == "relu" else None
    scales = {}
    factor = 1.0
    if narrow:
        scales = dict(row_scale=device.array(random.uniform(0.01, 0.1, rows).astype(np.float32)),
                      column_scale=device.array(random.uniform(0.01, 0.1, columns).astype(np.float32)))
        factor = decode("float32", scales["row_scale"])[:, None] * decode("float32", scales["column_scale"])
    output = device.array(poisoned(output_type, (rows, columns)))
    device.run("matrix", dtype=dtype, activation=ACTIVATIONS.index(activation), input=x, weight=w, bias=b,
               bias_dtype=bias_type, residual=added, output=output, output_dtype=output_type, rows=rows,
               columns=columns, depth=depth, input_stride=depth, weight_stride=depth, **scales)
    a, c = decode(dtype, x), decode(SUFFIXES[weight_type], w)
    if unit == "cdna3" and type in FP8 and not device.fnuz:
        # The emulator as it is knows float8_e4m3fn alone, whose numbers are twice those of the same codes here.
        a, c = decode("float8_e4m3fn", x) * (2 if type == "e4m3" else 1), 2 * c
    wanted = (a @ c.T) * factor + (decode(bias_type, b) if bias else 0)
    wanted = activate(activation, wanted + (decode(output_type, added) if added is not None else 0))
    size = (np.abs(a) @ np.abs(c).T) * factor
    return error_of(output_type, output, wanted, 2e-6 * size + 2e-5 * np.abs(wanted) + 1e-6)


def attention(device, random, type, width, queries, keys, mask, causal, heads=4, groups=2):
    dtype, batches = SUFFIXES[type], 2
    # [batch, row, head, width] in memory, as projections leave it.
    q = device.array(normal(random, dtype, (batches, queries, heads, width)))
    k = device.array(normal(random, dtype, (batches, keys, groups, width)))
    v = device.array(normal(random, dtype, (batches, keys, groups, width)))
    output = device.array(poisoned(dtype, (batches, queries, heads, width)))
    scale = 1 / math.sqrt(width)
    repeated = [np.repeat(decode(dtype, part), heads // groups, axis=2) for part in (k, v)]
    scores = np.einsum("bshd,bthd->bhst", decode(dtype, q), repeated[0]) * scale
    members = {}
    if mask == "bool":
        kept = random.random((batches, 1, queries, keys)) < 0.7
        kept[0, 0, 0] = False  # a row of which nothing takes part
        members = dict(mask=device.array(kept.astype(np.uint8)), mask_dtype="bool")
        scores = np.where(kept, scores, -np.inf)
    elif mask:
        mask_type = dtype if mask == "own" else "float32"
        stored = normal(random, mask_type, (batches, 1, queries, keys))
        members = dict(mask=device.array(stored), mask_dtype=mask_type)
        scores = scores + decode(mask_type, stored)
    if mask:
        members["mask_strides"] = (queries * keys, 0, keys)
    offset = keys - queries
    if causal:
        scores = np.where(np.arange(keys) <= np.arange(queries)[:, None] + offset, scores, -np.inf)
    strides = {"query": (queries, heads), "output": (queries, heads), "key": (keys, groups), "value": (keys, groups)}
    members |= {f"{name}_strides": (rows * own * width, width, own * width) for name, (rows, own) in strides.items()}
    device.run("attention", dtype=dtype, query=q, key=k, value=v, output=output, batches=batches, heads=heads,
               groups=groups, queries=queries, keys=keys, width=width, scale=scale, causal=causal,
               causal_offset=offset, **members)
    top = scores.max(-1, keepdims=True)
    weights = np.where(np.isfinite(scores), np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = weights.sum(-1, keepdims=True)
    weights = np.where(total > 0, weights / np.where(total > 0, total, 1), 0)
    wanted = np.einsum("bhst,bthd->bshd", weights, repeated[1])
    # Weights are rounded to the type, and small ones of float16 are flushed, before they meet the values.
    size = np.einsum("bhst,bthd->bshd", weights, np.abs(repeated[1]))
    flushed = 2.0**-14 * np.abs(repeated[1]).sum(1)[:, None] if type == "f16" else 0
    return error_of(dtype, output, wanted, size * (2.0 ** -(PRECISION[dtype][0] + 1) + 2e-5) + flushed + 1e-7)


def softmax_cases(wave):
    for type in FLOATS:
        each = 16 // BYTES[SUFFIXES[type]]
        block = 4 * wave * each + each
        for label, width, mask, causal in (("wave", 5 * each, "bool", False), ("wave", 2 * each, None, True),
                                           ("wave", 4 * wave * each, "float32", False), ("block", block, "own", False),
                                           ("streamed", 37, "bool", True), ("streamed", 301, "own", False)):
            yield Case(f"softmax_{label}_{type}", f"width {width}, mask {mask}, causal {causal}", softmax, type=type,
                       queries=3, width=width, mask=mask, causal=causal)


def small_cases(_):
    for type in FLOATS:
        for width, interleaved, inverse in ((64, False, False), (36, True, True), (6, False, True), (16, True, False)):
            yield Case(f"rotary_{type}", f"width {width}, interleaved {interleaved}, inverse {inverse}", rotary,
                       type=type, width=width, interleaved=interleaved, inverse=inverse,
                       table="f32" if width == 64 else type)
        for activation in ACTIVATIONS:
            yield Case(f"bias_activation_{type}", activation, bias_activation, type=type, rows=3, width=41,
                       activation=activation, residual=activation == "gelu")
        for activation, width in (("silu", 64), ("gelu", 37), ("gelu_tanh", 8), ("sigmoid", 1)):
            yield Case(f"gated_{type}", f"{activation}, width {width}", gated, type=type, rows=5, width=width,
                       activation=activation)
    for id_type in ("i32", "i64"):
        ids = "int64" if id_type == "i64" else "int32"
        for bits, dtype, width in ((128, "float32", 12), (32, "float32", 7), (16, "float16", 7), (8, "int8", 13)):
            yield Case(f"embedding_b{bits}_{id_type}", f"9 rows of {width}", embedding, dtype=dtype, id_dtype=ids,
                       count=9, width=width)


def convert_cases(_):
    for source in FLOATS:
        for target in FLOATS:
            if source != target:
                for misaligned in (False, True):
                    yield Case(f"cast_{source}_{target}", f"300, misaligned {misaligned}", convert, source=source,
                               target=target, count=300, row_width=0, misaligned=misaligned)
        for target in ("i8", *FP8):
            for count, row_width, misaligned in ((520, 8, False), (261, 0, True)):
                label = f"{count}, rows of {row_width}, misaligned {misaligned}"
                yield Case(f"quantize_{source}_{target}", label, convert, source=source, target=target, count=count,
                           row_width=row_width, misaligned=misaligned)
                yield Case(f"dequantize_{target}_{source}", label, convert, source=target, target=source, count=count,
                           row_width=row_width, misaligned=misaligned)
            yield Case(f"quantize_rows_{source}_{target}", "3 x 72, NaN", quantize_rows, source=source, target=target,
                       rows=3, width=72, gap=8, nan=True)
            yield Case(f"quantize_rows_{source}_{target}", "3 x 37", quantize_rows, source=source, target=target,
                       rows=3, width=37, gap=0, nan=False)
        for rows, width, history, gap in ((3, 72, None, 0), (5, 37, [], 0), (19, 64, [2.5, 0.75, 1], 8)):
            name = f"{rows} x {width}, {'no' if history is None else len(history)} runs before"
            for kernel in (f"quantize_tensor_{source}_e4m3", "remember_largest_f32")[: 1 if history is None else 2]:
                yield Case(kernel, f"{source}, {name}", quantize_tensor, source=source, rows=rows, width=width,
                           history=history, gap=gap)
        yield Case(f"largest_{source}", "5000", tensor_scale, source=source, target="e4m3", count=5000)
    yield Case("tensor_scale_f32", "77", tensor_scale, source="f32", target="e5m2fnuz", count=77)


def transpose_cases(_):
    pairs = [("b8", "i8", "i8"), ("b16", "f16", "f16"), ("b32", "f32", "f32"), ("f32_f16", "f32", "f16"),
             ("f32_bf16", "f32", "bf16"), ("f16_f32", "f16", "f32"), ("bf16_f32", "bf16", "f32")]
    pairs += [(f"{source}_{target}", source, target) for source in FLOATS for target in FP8]
    for name, source, target in pairs:
        for rows, columns in ((70, 6), (3, 33)):
            yield Case(f"transpose_{name}", f"{rows} x {columns}", transpose, source=source, target=target, rows=rows,
                       columns=columns)


MATRIX_TYPES = {"cdna3": ("f16", "bf16", "i8", "e4m3fnuz", "e4m3"), "cdna4": ("f16", "bf16", "i8", "e4m3"),
                "rdna3": ("f16", "bf16", "i8"), "rdna4": ("f16", "bf16", "i8", "e4m3")}


def matrix_cases(unit):
    for type in MATRIX_TYPES[unit]:
        for rows, columns, depth, activation, bias in ((17, 33, 40, "gelu", "float32"), (130, 129, 37, "none", "own"),
                                                       (1, 1, 1, "none", None), (64, 5, 192, "relu", "own")):
            # Inputs of the weights' kind go to the kernel of the unit's own.
            kernel = f"matrix_{unit}_{'e4m3fnuz' if unit == 'cdna3' and type in FP8 else type}"
            yield Case(kernel, f"{rows} x {columns} x {depth}, {activation}, {type}", matrix, type=type, unit=unit,
                       rows=rows, columns=columns, depth=depth, activation=activation, bias=bias)
        if type in FP8:
            yield Case(kernel, f"19 x 35 x 72, NaN, {type}", matrix, type=type, unit=unit, rows=19, columns=35,
                       depth=72, activation="none", bias="own", nan=True)


def attention_cases(unit):
    for type in ("f16", "bf16"):
        for width in (64, 128):
            for queries, keys, mask, causal in ((1, 75, None, False), (19, 37, "bool", False), (40, 45, None, True),
                                                (21, 70, "float32", True), (130, 33, "own", False)):
                yield Case(f"attention_{unit}_{type}_{width}", f"{queries} x {keys}, mask {mask}, causal {causal}",
                           attention, type=type, width=width, queries=queries, keys=keys, mask=mask, causal=causal)


def all_cases(wave, unit):
    for family in (softmax_cases, small_cases, convert_cases, transpose_cases):
        yield from family(wave)
    for family in (matrix_cases, attention_cases):
        yield from family(unit)
