"""Cases of amd_emulate.py for the kernels that take tensors with any strides: elementwise, gather and scatter, reduce,
product; and for rows of attention that may look nowhere. Convolutions, pools and running sums are launches of these."""

import numpy as np

from amd_emulate_cases import (ACTIVATIONS, EDGES, FLOATS, SUFFIXES, Case, activate, decode, encode, error_of, normal,
                               poisoned)

# In the order of ElementOp and ReduceOp.
ELEMENT_OPS = ("copy", "add", "subtract", "multiply", "divide", "minimum", "maximum", "select", "multiply_add", "equal",
               "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
               "logical_not", "bit_and", "bit_or", "bit_not", "negate", "magnitude", "exponential", "logarithm", "root",
               "inverse_root", "sine", "cosine", "activate", "range")
INTEGER_ONLY = ("bit_and", "bit_or", "bit_not")
FLOAT_ONLY = ("divide", "exponential", "logarithm", "root", "inverse_root", "sine", "cosine", "activate")
REDUCE_OPS = ("sum", "mean", "maximum", "minimum", "length", "any", "all", "place_of_maximum", "place_of_minimum")
WHOLE = {"bool": np.uint8, "uint8": np.uint8, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64}


def strides_of(array):
    """In elements."""
    return tuple(stride // array.itemsize for stride in array.strides)


def view(name, array, dtype):
    return {f"{name}.data": array, f"{name}.dtype": dtype, f"{name}.strides": strides_of(array)}


def apply(op, a, b, c, factor, activation):
    """What an operation means, in float64 or int64."""
    truths = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
              "greater": np.greater, "greater_equal": np.greater_equal, "logical_and": np.logical_and,
              "logical_or": np.logical_or}
    plain = {"multiply": np.multiply, "divide": np.divide, "minimum": np.minimum, "maximum": np.maximum,
             "bit_and": np.bitwise_and, "bit_or": np.bitwise_or}
    single = {"copy": lambda x: x, "logical_not": lambda x: x == 0, "bit_not": np.invert, "negate": np.negative,
              "magnitude": np.abs, "exponential": np.exp, "logarithm": np.log, "root": np.sqrt,
              "inverse_root": lambda x: 1 / np.sqrt(x), "sine": np.sin, "cosine": np.cos}
    if op in truths or op in plain:
        return (truths | plain)[op](a, b)
    if op in single:
        return single[op](a)
    if op == "activate":
        return activate(activation, a)
    if op == "select":
        return np.where(a != 0, b, c)
    if op == "multiply_add":
        return a * b + c
    return a + factor * b if op == "add" else a - factor * b


def elementwise(device, random, op, types, activation="none"):
    """a lies turned round, b is broadcast, c is a number; the result has gaps."""
    a_type, b_type, output_type = (SUFFIXES[type] for type in types)
    if op in ("logarithm", "root", "inverse_root"):
        stored = encode(a_type, random.uniform(0.01, 30, (7, 5, 3)))
    else:
        stored = normal(random, a_type, (7, 5, 3), 2)
    if op in ("select", "logical_and", "logical_or", "logical_not"):
        stored[::2] = 0
    if op in ("minimum", "maximum", "equal", "less", "activate"):
        stored[1, 1, 1] = encode(a_type, np.array([np.nan]))[0]
    a = device.array(stored).transpose(2, 1, 0)
    b = np.broadcast_to(device.array(normal(random, b_type, (5, 1), 2)), (3, 5, 7))
    memory = device.array(poisoned(output_type, (3, 5, 9)))
    output = memory[:, :, :7]
    device.run("elementwise", op=ELEMENT_OPS.index(op), activation=ACTIVATIONS.index(activation), dims=(3, 5, 7),
               factor=0.75, output=output, output_dtype=output_type, output_strides=strides_of(output),
               **view("a", a, a_type), **view("b", b, b_type), **{"c.number": 1.25})
    x, y = decode(a_type, a), decode(b_type, b)
    with np.errstate(invalid="ignore"):
        wanted = np.asarray(apply(op, x, y, 1.25, 0.75, activation), np.float64)
    # Sums that cancel are as exact as what they are made of.
    size = np.abs(np.nan_to_num(x)) + np.abs(y) + np.abs(np.nan_to_num(x) * y)
    slack = 1e-6 * size + (2e-5 if op == "activate" else 1e-6) * np.abs(np.nan_to_num(wanted))
    untouched = poisoned(output_type, (3, 5, 2))
    if memory[:, :, 7:].tobytes() != untouched.tobytes():
        raise AssertionError("gaps of the result were written")
    return error_of(output_type, output, wanted, slack)


# Where the rest of a turn is hard to find: near multiples of a quarter, and far out.
ANGLES = (0.0, -0.0, 0.7853982, 1.5707964, 3.1415927, 6.2831855, -1.5707964, 355.0, 103993.0, 1e4, -65535.5, 16777215.0,
          2.0**20 * 1.5707964, 1e-4, -0.78539, 11.0, 22.0)


def sines(device, random, op):
    values = np.concatenate([ANGLES, random.uniform(-100, 100, 40), random.uniform(-(2**24), 2**24, 40)])
    edges = np.array([np.inf, -np.inf, np.nan])
    x = device.array(np.concatenate([values, edges]).astype(np.float32))
    output = device.array(poisoned("float32", x.shape))
    device.run("elementwise", op=ELEMENT_OPS.index(op), dims=x.shape, output=output, output_strides=(1,),
               **view("a", x, "float32"))
    with np.errstate(invalid="ignore"):
        wanted = apply(op, decode("float32", x), None, None, 1, "none")
    return error_of("float32", output, wanted, np.full(x.shape, 2e-7))


def elementwise_whole(device, random, op, types):
    a_type, b_type, output_type = types
    shape = (4, 11)
    draw = {"bool": (0, 2), "uint8": (0, 256), "int8": (-128, 128)}
    stored = [random.integers(*draw.get(type, (-30000, 30000)), shape).astype(WHOLE[type]) for type in (a_type, b_type)]
    if op == "select":
        stored[0][::2] = 0
    a, b = device.array(stored[0].T.copy()).T, device.array(stored[1])
    output = device.array(np.zeros(shape, WHOLE[output_type]))
    large = 2**53 + 1  # no float32 and no float64
    device.run("elementwise", op=ELEMENT_OPS.index(op), in_integers=True, dims=shape, factor_integer=3, output=output,
               output_dtype=output_type, output_strides=strides_of(output), **view("a", a, a_type),
               **view("b", b, b_type), **{"c.integer": large})
    x, y = np.asarray(a, np.int64), np.asarray(b, np.int64)
    wanted = np.asarray(apply(op, x, y, np.int64(large), np.int64(3), "none")).astype(np.int64)
    wanted = (wanted != 0) if output_type == "bool" else wanted
    return 0.0 if np.array_equal(output, wanted.astype(WHOLE[output_type])) else float("inf")


def ranges(device, random, whole):
    dtype = "int64" if whole else "float32"
    output = device.array(np.zeros(300, WHOLE["int64"] if whole else np.float32))
    start = {"a.integer": 2**40} if whole else {"a.number": -3.5}
    device.run("elementwise", op=ELEMENT_OPS.index("range"), in_integers=whole, dims=(300,), factor=0.25,
               factor_integer=-7, output=output, output_dtype=dtype, output_strides=(1,), **start)
    place = np.arange(300)
    return 0.0 if np.array_equal(output, 2**40 - 7 * place if whole else -3.5 + 0.25 * place) else float("inf")


def windows(device, random, type):
    """What a convolution multiplies: windows of 3 x 2, a step of 2 and 1, side by side."""
    dtype = SUFFIXES[type]
    x = device.array(normal(random, dtype, (2, 3, 7, 6)))
    n, c, h, w = strides_of(x)
    dims, strides = (2, 3, 5, 3, 3, 2), (n, 2 * h, w, c, h, w)  # batch, places, channels, window
    output = device.array(poisoned(dtype, dims))
    device.run("elementwise", op=ELEMENT_OPS.index("copy"), dims=dims, output=output, output_dtype=dtype,
               output_strides=strides_of(output), **{"a.data": x, "a.dtype": dtype, "a.strides": strides})
    wanted = np.lib.stride_tricks.sliding_window_view(np.asarray(x), (3, 2), (2, 3))[:, :, ::2]
    return 0.0 if np.array_equal(output, wanted.transpose(0, 2, 3, 1, 4, 5)) else float("inf")


def fp8_copies(device, random, type, to_fp8):
    """All codes of float8_e4m3fn as another type, or numbers and edges as codes."""
    source, target = ("float8_e4m3fn", SUFFIXES[type])[:: -1 if to_fp8 else 1]
    if to_fp8:
        with np.errstate(over="ignore"):
            stored = encode(source, np.concatenate([EDGES, random.normal(0, 100, 200)]))
    else:
        stored = np.arange(256, dtype=np.uint8)
    x, output = device.array(stored), device.array(poisoned(target, stored.shape))
    device.run("elementwise", op=ELEMENT_OPS.index("copy"), dims=x.shape, output=output, output_dtype=target,
               output_strides=(1,), **view("a", x, source))
    return error_of(target, output, decode(source, stored))


def running_sums(device, random, whole):
    """As the engine does it: each step adds the tensor to itself, twice as far on as before."""
    dtype = "int64" if whole else "float32"
    values = random.integers(-50, 50, (3, 13)) if whole else random.normal(0, 1, (3, 13))
    sums = device.array(values.astype(np.int64 if whole else np.float32))
    wanted, distance = np.cumsum(np.asarray(sums, np.int64 if whole else np.float64), axis=1), 1
    while distance < 13:
        following = device.array(np.zeros_like(sums))
        for op, first, second, part in (("copy", sums[:, :distance], None, following[:, :distance]),
                                        ("add", sums[:, distance:], sums[:, :-distance], following[:, distance:])):
            operands = view("a", first, dtype) | (view("b", second, dtype) if second is not None else {})
            device.run("elementwise", op=ELEMENT_OPS.index(op), in_integers=whole, dims=part.shape, output=part,
                       output_dtype=dtype, output_strides=strides_of(part), **operands)
        sums, distance = following, 2 * distance
    if whole:
        return 0.0 if np.array_equal(sums, wanted) else float("inf")
    return error_of("float32", sums, wanted, np.full(wanted.shape, 1e-5))


def gather(device, random, bits, scatter):
    """Two axes of three by index; one index counts from the end and, in the way out of memory, one is outside."""
    dtype = {64: "int64", 32: "float32", 16: "float16", 8: "int8"}[bits]
    storage = {64: np.int64, 32: np.uint32, 16: np.uint16, 8: np.uint8}[bits]
    many = random.integers(1, 200, (4, 5, 6)).astype(storage)
    few = random.integers(1, 200, (2, 3, 6)).astype(storage)
    first = np.array([-1, 2], np.int64)
    second = np.array([4, 0, 7 if not scatter else 3], np.int64)
    source = device.array(few if scatter else many)
    output = device.array(many if scatter else np.full((2, 3, 6), 77, storage))
    flag = device.array(np.zeros(1, np.int32))
    members = {"axes.0.indices": device.array(first), "axes.0.strides": (1, 0, 0), "axes.0.extent": 4,
               "axes.0.source_stride": 30, "axes.1.indices": device.array(second), "axes.1.strides": (0, 1, 0),
               "axes.1.extent": 5, "axes.1.source_stride": 6}
    device.run("scatter" if scatter else "gather", dtype=dtype, source=source, output=output, dims=(2, 3, 6),
               source_strides=(0, 0, 1), wrap=True, out_of_range=flag, **members)
    if scatter:
        wanted = many.copy()
        wanted[np.ix_(first, second)] = few
    else:
        wanted = np.zeros((2, 3, 6), storage)
        wanted[:, :2] = many[np.ix_(first, second[:2])]
    right = np.array_equal(output, wanted) and flag[0] == (0 if scatter else 1)
    return 0.0 if right else float("inf")


def reduce(device, random, op, type):
    """Over the first and the last of three axes."""
    dtype = SUFFIXES.get(type, type)
    shape = (3, 4, 45)
    if type in ("bool", "int64"):
        stored = random.integers(0, 2 if type == "bool" else 9, shape).astype(WHOLE[type])
    else:
        stored = normal(random, dtype, shape, 2, 0.5)
        if op in ("any", "all"):
            stored[:, 1] = 0
            stored[2, 2, 7] = 0
        if op in ("maximum", "place_of_minimum"):
            stored[1, 3, 5] = encode(dtype, np.array([np.nan]))[0]
    x = device.array(stored)
    place, truth = op.startswith("place"), op in ("any", "all")
    output_type = "int64" if place else ("bool" if truth else dtype)
    blank = np.full(4, 77, WHOLE[output_type]) if place or truth else poisoned(dtype, 4)
    output = device.array(blank)
    device.run("reduce", op=REDUCE_OPS.index(op), dtype=dtype, input=x, output=output, output_dtype=output_type,
               **{"kept.extent": (4,), "kept.stride": (45,), "reduced.extent": (3, 45), "reduced.stride": (180, 1)})
    rows = stored if type in ("bool", "int64") else decode(dtype, stored)
    rows = rows.transpose(1, 0, 2).reshape(4, 135)
    if place:
        wanted = (rows.argmax if op == "place_of_maximum" else rows.argmin)(1)  # NaN first, as numpy has it too
        return 0.0 if np.array_equal(output, wanted) else float("inf")
    if truth:
        wanted = ((rows != 0).any if op == "any" else (rows != 0).all)(1)
        return 0.0 if np.array_equal(output, wanted) else float("inf")
    results = {"sum": rows.sum(1), "mean": rows.mean(1), "maximum": rows.max(1), "minimum": rows.min(1),
               "length": np.sqrt((rows**2).sum(1))}
    return error_of(dtype, output, results[op], np.full(4, 1e-5 * np.nansum(np.abs(rows), 1).max() / 10 + 1e-6))


def product(device, random, type, rows, columns, depth, turned, extras):
    """Batches that share the right matrix along one axis; `turned`: its depth has gaps."""
    dtype, batches = SUFFIXES[type], (1, 2, 2)
    left = device.array(normal(random, dtype, (*batches, rows, depth)))
    right = device.array(normal(random, dtype, (2, depth, columns) if turned else (2, columns, depth)))
    output = device.array(normal(random, dtype, (*batches, rows, columns)))  # also what is added
    bias = device.array(normal(random, "float32", columns)) if extras else None
    added = np.array(decode(dtype, output)) if extras else 0.0
    left_strides, output_strides = strides_of(left), strides_of(output)
    own = strides_of(right)
    line, along = (own[2], own[1]) if turned else (own[1], own[2])
    device.run("product", activation=ACTIVATIONS.index("silu" if extras else "none"), scale=0.5, bias=bias,
               residual=output if extras else None, output=output, output_dtype=dtype,
               output_batch_strides=output_strides[:3], output_row_stride=output_strides[3], batches=batches, rows=rows,
               columns=columns, depth=depth,
               **{"left.data": left, "left.dtype": dtype, "left.batch_strides": left_strides[:3],
                  "left.line_stride": left_strides[3], "left.depth_stride": left_strides[4], "right.data": right,
                  "right.dtype": dtype, "right.batch_strides": (0, own[0], 0), "right.line_stride": line,
                  "right.depth_stride": along})
    x, y = decode(dtype, left), decode(dtype, right)
    y = (y if turned else y.swapaxes(1, 2))[None, :, None]
    wanted = 0.5 * (x @ y) + (decode("float32", bias) if extras else 0) + added
    wanted = activate("silu", wanted) if extras else wanted
    return error_of(dtype, output, wanted, 2e-6 * (np.abs(x) @ np.abs(y)) + 2e-5 * np.abs(wanted) + 1e-6)


def blind_rows(device, random, type, keys, width, shared, gap):
    """Rows that may look nowhere, at one key, the last one among them, and at all; `shared`: heads have one mask."""
    dtype, batches, heads, queries = SUFFIXES[type], 2, 3, 4
    codes = np.full((batches, 1 if shared else heads, queries, keys + gap), -np.inf)
    for row, key in enumerate((0, keys - 1, keys // 2)):
        codes[row % 2, row % codes.shape[1], row, key] = (0.0, -3.5, np.nan)[row]
    codes[1, 0, 3, :] = 0.0
    codes[..., keys:] = 0.0  # behind the rows: nobody's
    mask = device.array(encode(dtype, codes))
    before = normal(random, dtype, (batches, queries, heads, width + gap))
    result = device.array(before)
    steps, places = strides_of(mask), strides_of(result)
    device.run("blind_rows", dtype=dtype, mask=mask, result=result, batches=batches, heads=heads, queries=queries,
               keys=keys, width=width, mask_batch_stride=steps[0], mask_head_stride=0 if shared else steps[1],
               mask_query_stride=steps[2], mask_key_stride=1, result_batch_stride=places[0],
               result_query_stride=places[1], result_head_stride=places[2])
    blind = np.isneginf(codes[..., :keys]).all(-1)  # batches, heads of the mask, queries
    wanted = before.copy()
    wanted.transpose(0, 2, 1, 3)[np.broadcast_to(blind, (batches, heads, queries)), :width] = 0
    return 0.0 if np.array_equal(result, wanted) else float("inf")


def elementwise_cases():
    for place, op in enumerate(ELEMENT_OPS):
        if op in INTEGER_ONLY or op in ("sine", "cosine", "range", "activate"):
            continue
        types = tuple(FLOATS[(place + step) % 3] for step in range(3))
        yield Case("elementwise_f32", f"{op}, {types}", elementwise, op=op, types=types)
    for activation in ACTIVATIONS:
        yield Case("elementwise_f32", activation, elementwise, op="activate", types=("f32", "f32", "f32"),
                   activation=activation)
    for op in ("sine", "cosine"):
        yield Case("elementwise_f32", op, sines, op=op)
    kinds = tuple(WHOLE)
    for place, op in enumerate(ELEMENT_OPS):
        if op in FLOAT_ONLY or op == "range":
            continue
        types = (kinds[place % 6], kinds[(place + 2) % 6], kinds[5 - place % 3])
        if op in ("equal", "not_equal", "less", "logical_and", "logical_not"):
            types = (*types[:2], "bool")
        yield Case("elementwise_i64", f"{op}, {types}", elementwise_whole, op=op, types=types)
    for whole in (False, True):
        kernel = "elementwise_i64" if whole else "elementwise_f32"
        yield Case(kernel, "range", ranges, whole=whole)
        yield Case(kernel, "running sums", running_sums, whole=whole)
    for type in FLOATS:
        yield Case("elementwise_f32", f"windows, {type}", windows, type=type)
        for to_fp8 in (False, True):
            label = f"copy, {type} {'to' if to_fp8 else 'from'} e4m3"
            yield Case("elementwise_f32", label, fp8_copies, type=type, to_fp8=to_fp8)


def all_cases():
    yield from elementwise_cases()
    for bits in (64, 32, 16, 8):
        for scatter in (False, True):
            yield Case(f"{'scatter' if scatter else 'gather'}_b{bits}", "2 x 3 x 6 of 4 x 5 x 6", gather, bits=bits,
                       scatter=scatter)
    for op in REDUCE_OPS:
        kind = "extreme" if op.startswith("place") else "reduce"
        for type in FLOATS:
            yield Case(f"{kind}_{type}", op, reduce, op=op, type=type)
        if op in ("any", "all"):
            yield Case("reduce_bool", op, reduce, op=op, type="bool")
        if kind == "extreme":
            yield Case("extreme_i64", op, reduce, op=op, type="int64")
    for type in FLOATS:
        for rows, columns, depth, turned, extras in ((5, 66, 19, False, True), (65, 3, 16, True, False)):
            yield Case(f"product_{type}", f"{rows} x {columns} x {depth}, turned {turned}", product, type=type,
                       rows=rows, columns=columns, depth=depth, turned=turned, extras=extras)
    for type in ("f16", "bf16"):
        for keys, width, shared, gap in ((128, 64, True, 0), (7, 5, False, 1), (1032, 8, True, 0)):
            yield Case("blind_rows_b16", f"{type}, {keys} keys, {width} wide, shared {shared}", blind_rows, type=type,
                       keys=keys, width=width, shared=shared, gap=gap)
