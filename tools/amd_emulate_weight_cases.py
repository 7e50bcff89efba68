"""Cases of amd_emulate.py for products with weights of 8 and 4 bits, and for such weights made floats."""

import numpy as np

from amd_emulate_cases import ACTIVATIONS, FLOATS, SUFFIXES, Case, activate, decode, error_of, normal, poisoned


def halves_of(codes):
    """The numbers of bytes that hold two weights each, the even one in the low half."""
    return np.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:-1], -1).astype(np.float64) - 8


def weights(device, random, bits, columns, depth, group):
    """Any codes, -128 too; their scales; and what they are in float64."""
    if bits == 8:
        stored = device.array(random.integers(-128, 128, (columns, depth)).astype(np.int8))
        scale = device.array(random.uniform(0.001, 0.01, columns).astype(np.float32))
        return stored, scale, stored.astype(np.float64) * decode("float32", scale)[:, None]
    stored = device.array(random.integers(0, 256, (columns, depth // 2)).astype(np.uint8))
    scale = device.array(random.uniform(0.01, 0.1, (columns, depth // group)).astype(np.float32))
    return stored, scale, halves_of(stored) * np.repeat(decode("float32", scale), group, axis=1)


def weight_only(device, random, bits, type, rows, columns, depth, group, gap, extras):
    """`extras`: the types of bias, residual and output, each its own; a residual has gaps between its rows."""
    dtype = SUFFIXES[type]
    x = device.array(normal(random, dtype, (rows, depth + gap)))
    stored, scale, w = weights(device, random, bits, columns, depth, group)
    members, added = {}, 0.0
    output_type = dtype
    if extras:
        bias_type, residual_type, output_type = (SUFFIXES[other] for other in extras)
        bias = device.array(normal(random, bias_type, columns))
        residual = device.array(normal(random, residual_type, (rows, columns + 3)))
        members = dict(bias=bias, bias_dtype=bias_type, residual=residual, residual_dtype=residual_type,
                       residual_stride=columns + 3, activation=ACTIVATIONS.index("gelu"))
        added = decode(bias_type, bias) + decode(residual_type, residual)[:, :columns]
    output = device.array(poisoned(output_type, (rows, columns)))
    device.run("weight_only", input=x, input_dtype=dtype, input_stride=depth + gap, weight=stored,
               weight_dtype="int8" if bits == 8 else "uint8", scale=scale, group=group, output=output,
               output_dtype=output_type, rows=rows, columns=columns, depth=depth, **members)
    values = decode(dtype, x)[:, :depth]
    wanted = activate("gelu" if extras else "none", values @ w.T + added)
    return error_of(output_type, output, wanted, 2e-6 * (1 + np.abs(values) @ np.abs(w.T)) + 2e-5 * np.abs(wanted))


def unpack(device, random, type, count, group):
    """Every pair of codes."""
    dtype = SUFFIXES[type]
    codes = device.array(np.resize(np.arange(256, dtype=np.uint8), count // 2))
    scale = device.array(random.uniform(0.01, 0.1, count // group).astype(np.float32))
    output = device.array(poisoned(dtype, count))
    device.run("unpack_int4", input=codes, output=output, to=dtype, scale=scale, count=count, group=group)
    return error_of(dtype, output, halves_of(codes) * np.repeat(decode("float32", scale), group))


def product_cases(wave):
    """Waves that share the depth, a part of a wave, and element by element; the last columns fill no wave."""
    for bits, group in ((8, 0), (4, 64)):
        for most, rows in ((1, 1), (2, 2), (4, 3), (8, 7)):
            for place, type in enumerate(FLOATS):
                extras = tuple(FLOATS[(place + step) % 3] for step in (1, 2, 0))
                odd = (37, 0) if bits == 8 else (42, 6)
                shared = 4 * wave * (128 // bits) + (16 if bits == 8 else 64)
                for columns, depth, own_group, gap, what in ((5, shared, group, 0, None),
                                                             (9, 48 if bits == 8 else 192, group, 8, extras),
                                                             (3, *odd, 1, extras)):
                    yield Case(f"weight_i{bits}_{most}_{type}", f"{rows} x {columns} x {depth}", weight_only, bits=bits,
                               type=type, rows=rows, columns=columns, depth=depth, group=own_group, gap=gap,
                               extras=what)


def all_cases(wave):
    yield from product_cases(wave)
    for type in FLOATS:
        for count, group in ((2064, 16), (516, 6), (512, 2)):
            yield Case(f"unpack_i4_{type}", f"{count} in groups of {group}", unpack, type=type, count=count,
                       group=group)
