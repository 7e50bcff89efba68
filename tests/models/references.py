"""Reference results: the eager run in the model's own type, the run in double precision, and the rule that compares."""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

LOW_PRECISION = (torch.float32, torch.bfloat16, torch.float16)
CASTS = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)


class PromoteToDouble(TorchFunctionMode):
    """Reads every float type that the code names as float64.

    Model code casts to float32 where it wants precision (norms, rotary embeddings, softmax). In the fp64 run these
    casts would lose it, and module.double() does not reach them.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in CASTS:
            return args[0].double()
        args, kwargs = pytree.tree_map(self.promote, (tuple(args), kwargs or {}))
        return function(*args, **kwargs)

    @staticmethod
    def promote(value):
        return torch.float64 if isinstance(value, torch.dtype) and value in LOW_PRECISION else value


class RefuseLowPrecision(TorchDispatchMode):
    """Fails when an operation of the fp64 run yields a smaller float type: a cast was overlooked."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in pytree.tree_leaves(result):
            if isinstance(tensor, torch.Tensor) and tensor.dtype in LOW_PRECISION:
                raise AssertionError(f"{function} gives {tensor.dtype} in the fp64 run")
        return result


def to_double(value):
    return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def run_eager(module, inputs):
    with torch.no_grad():
        return module(**inputs)


def run_in_double(module, inputs):
    """Runs a module whose weights are double already."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad(), PromoteToDouble(), RefuseLowPrecision():
            return module(**{name: to_double(value) for name, value in inputs.items()})
    finally:
        torch.set_default_dtype(before)


TOLERANCES = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1e-4, torch.float64: 1e-7}


def find_disagreement(result, eager, fp64):
    """None, or a sentence: as PyTorch's own gate, near eager, or as near to fp64 as eager is."""
    for name, expected in eager.items():
        if name not in result:
            return f"output {name} is missing"
        actual = result[name]
        if actual.dtype != expected.dtype or actual.shape != expected.shape:
            return f"output {name} is {actual.dtype}{list(actual.shape)}, not {expected.dtype}{list(expected.shape)}"
        if not agrees(actual, expected, fp64.get(name)):
            return f"output {name} differs"
    return None


def agrees(actual, expected, fp64):
    if not expected.is_floating_point():
        return torch.equal(actual, expected)
    tolerance = TOLERANCES[expected.dtype]
    if torch.allclose(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True):
        return True
    if fp64 is None or expected.numel() == 0:
        return False
    factor = 2 if expected.dtype == torch.float32 and expected.numel() >= 1000 else 3
    return rmse(actual, fp64) <= factor * rmse(expected, fp64) + tolerance / 10


def rmse(value, fp64):
    return (value.double() - fp64).square().mean().sqrt().item()
