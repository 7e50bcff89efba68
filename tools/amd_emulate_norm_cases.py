"""Cases of amd_emulate.py for norms and their gradients."""

import numpy as np

from amd_emulate_cases import BYTES, FLOATS, SUFFIXES, Case, decode, encode, error_of, normal, poisoned


def with_nan(dtype, stored, wanted):
    """One element, in the row before the last."""
    if wanted:
        stored[-2, 1] = encode(dtype, np.array(np.nan))
    return stored


def norm(device, random, type, rows, width, kind, residual, parameters, gap=0, nan=False):
    dtype = SUFFIXES[type]
    x = device.array(with_nan(dtype, normal(random, dtype, (rows, width + gap), 2, 0.5), nan))
    r = device.array(normal(random, dtype, (rows, width))) if residual else None
    weight_type = "float32" if parameters == "float32" else dtype
    w = device.array(normal(random, weight_type, width, 0.5, 1)) if parameters else None
    b = device.array(normal(random, weight_type, width)) if parameters else None
    normed, total = device.array(poisoned(dtype, (rows, width))), device.array(poisoned(dtype, (rows, width)))
    mean, scale = device.array(np.zeros(rows, np.float32)), device.array(np.zeros(rows, np.float32))
    device.run("norm", dtype=dtype, kind=kind, input=x, residual=r, weight=w, bias=b, weight_dtype=weight_type,
               bias_dtype=weight_type, normed=normed, sum=total, mean=mean, scale=scale, rows=rows, width=width,
               input_stride=width + gap, residual_stride=width if residual else 0, epsilon=1e-5)
    values = decode(dtype, x)[:, :width] + (decode(dtype, r) if residual else 0)
    errors = [error_of(dtype, total, values)]
    center = values.mean(1, keepdims=True) if kind == 0 else np.zeros((rows, 1))
    factor = 1 / np.sqrt(((values - center) ** 2).mean(1, keepdims=True) + 1e-5)
    wanted = (values - center) * factor
    wanted = wanted * (decode(weight_type, w) if parameters else 1) + (decode(weight_type, b) if parameters else 0)
    slack = 2e-5 * (1 + np.abs(values) * factor)
    errors.append(error_of(dtype, normed, wanted, slack))
    errors.append(error_of("float32", scale, factor[:, 0], 2e-5))
    if kind == 0:
        errors.append(error_of("float32", mean, center[:, 0], np.full(rows, 1e-5)))
    return max(errors)


def norm_backward(device, random, type, rows, width, kind, sum_gradient, weight_type, nan=False):
    """With NaN only the other rows' gradients of the input say something, and that the weights' are NaN there."""
    dtype, weight_dtype = SUFFIXES[type], SUFFIXES[weight_type]
    x = device.array(normal(random, dtype, (rows, width), 2, 0.3))
    g = device.array(with_nan(dtype, normal(random, dtype, (rows, width)), nan))
    w = device.array(normal(random, weight_dtype, width, 0.5, 1))
    extra = device.array(normal(random, dtype, (rows, width))) if sum_gradient else None
    values, gradient, weight = decode(dtype, x), decode(dtype, g), decode(weight_dtype, w)
    center = values.mean(1, keepdims=True) if kind == 0 else np.zeros((rows, 1))
    factor = 1 / np.sqrt(((values - center) ** 2).mean(1, keepdims=True) + 1e-5)
    mean, scale = device.array(center[:, 0].astype(np.float32)), device.array(factor[:, 0].astype(np.float32))
    center, factor = decode("float32", mean)[:, None], decode("float32", scale)[:, None]
    dx = device.array(poisoned(dtype, (rows, width)))
    dw, db = device.array(poisoned(weight_dtype, width)), device.array(poisoned(weight_dtype, width))
    members = dict(dtype=dtype, kind=kind, gradient=g, input=x, weight=w, weight_dtype=weight_dtype, mean=mean,
                   scale=scale, sum_gradient=extra, input_gradient=dx, weight_gradient=dw, bias_gradient=db, rows=rows,
                   width=width)
    workspace = device.array(np.full(device.workspace("norm_backward", **members), 0xFF, np.uint8))
    device.run("norm_backward", **members, workspace=workspace)
    normed, weighted = (values - center) * factor, gradient * weight
    wanted = weighted - normed * (weighted * normed).mean(1, keepdims=True)
    if kind == 0:
        wanted = wanted - weighted.mean(1, keepdims=True)
    wanted = wanted * factor + (decode(dtype, extra) if sum_gradient else 0)
    slack = 4e-5 * (1 + np.abs(weighted) * factor)
    return max(error_of(dtype, dx, wanted, slack),
               error_of(weight_dtype, dw, (gradient * normed).sum(0), 1e-5 * np.abs(gradient * normed).sum(0) + 1e-6),
               error_of(weight_dtype, db, gradient.sum(0), 1e-5 * np.abs(gradient).sum(0) + 1e-6))


def norm_cases(wave):
    """Rows of up to a wave's accesses are narrow: a power of two of lanes has each, and a lane 4 rows or 2."""
    for type in FLOATS:
        each = 16 // BYTES[SUFFIXES[type]]
        block = 4 * wave * each + each
        for kernel, width, rows in (("narrow4", 3 * each, 71), ("narrow4", wave * each, 5), ("narrow4", each, 1),
                                    ("wave", 4 * wave * each, 2), ("wave", wave * each + each, 3),
                                    ("block4", block, 2), ("streamed", 4096 * each + each, 1), ("scalar", 37, 3),
                                    ("scalar", 1, 2)):
            yield Case(f"norm_{kernel}_{type}", f"layer, {rows} x {width}", norm, type=type, rows=rows, width=width,
                       kind=0, residual=False, parameters="own")
        for kernel, width, rows in (("sum_narrow2", 3 * each, 37), ("sum_narrow2", (wave - 1) * each, 3),
                                    ("sum_wave", 3 * wave * each, 2), ("sum_block2", block, 2),
                                    ("sum_block4", 2048 * each + each, 1), ("scalar", 37, 3)):
            yield Case(f"norm_{kernel}_{type}", f"rms, residual, {rows} x {width}", norm, type=type, rows=rows,
                       width=width, kind=1, residual=True, parameters="float32", gap=1 if kernel == "scalar" else each)
        for kernel, width in (("narrow4", 5 * each), ("wave", wave * each + each), ("scalar", 37)):
            yield Case(f"norm_{kernel}_{type}", f"layer, NaN in one of 6 x {width}", norm, type=type, rows=6,
                       width=width, kind=0, residual=False, parameters="own", nan=True)
        yield Case(f"norm_sum_narrow2_{type}", f"layer, NaN in one of 6 x {2 * each}", norm, type=type, rows=6,
                   width=2 * each, kind=0, residual=True, parameters=None, nan=True)


def norm_backward_cases(wave):
    for type in FLOATS:
        each = 16 // BYTES[SUFFIXES[type]]
        for kernel in (f"norm_backward_narrow2_{type}", f"norm_backward_finish_{type}"):
            yield Case(kernel, "layer, 11 x 40", norm_backward, type=type, rows=11, width=40, kind=0, sum_gradient=True,
                       weight_type=type)
        # More rows than all waves have at once, so that each comes by twice; a row that fills a wave.
        yield Case(f"norm_backward_narrow2_{type}", f"rms, 171 x {32 * each}", norm_backward, type=type, rows=171,
                   width=32 * each, kind=1, sum_gradient=False, weight_type="f32")
        yield Case(f"norm_backward_narrow2_{type}", f"layer, 5 x {wave * each}, NaN in one", norm_backward, type=type,
                   rows=5, width=wave * each, kind=0, sum_gradient=False, weight_type="f32", nan=True)
        yield Case(f"norm_backward1_{type}", "layer, 3 rows", norm_backward, type=type, rows=3,
                   width=(wave + 3) * each, kind=0, sum_gradient=True, weight_type=type)
        yield Case(f"norm_backward4_{type}", "rms, several passes", norm_backward, type=type, rows=2, width=65 * each,
                   kind=1, sum_gradient=False, weight_type="f32")
        yield Case(f"norm_backward_any_{type}", "layer, 3 x 37", norm_backward, type=type, rows=3, width=37, kind=0,
                   sum_gradient=False, weight_type="f32")
        yield Case(f"norm_backward_any_{type}", "rms, 2 x 301", norm_backward, type=type, rows=2, width=301, kind=1,
                   sum_gradient=True, weight_type=type)


def all_cases(wave):
    yield from norm_cases(wave)
    yield from norm_backward_cases(wave)
