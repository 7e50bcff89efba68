"""The files that the tests read beside a `.pt2`: inputs and expected outputs in safetensors, the rest in JSON.

tests/models/README.md describes the format.
"""

import hashlib
import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

FORMAT = 1


def flatten_outputs(value):
    """Name → tensor, named by the structure that the model returns; None and plain numbers are left out."""
    if isinstance(value, torch.Tensor):
        return OrderedDict(output=value)
    named = OrderedDict()
    top = "" if is_named(value) else "output_"
    for key, item in children(value):
        add_tensors(f"{top}{key}", item, named)
    return named


def add_tensors(prefix, value, named):
    if isinstance(value, torch.Tensor):
        named[prefix] = value
    elif isinstance(value, (Mapping, tuple, list)):
        for key, item in children(value):
            add_tensors(f"{prefix}.{key}", item, named)


def is_named(value):
    return isinstance(value, Mapping) or hasattr(value, "_fields")


def children(value):
    if isinstance(value, Mapping):
        return value.items()
    if hasattr(value, "_fields"):
        return zip(value._fields, value)
    return enumerate(value)


class CaseWriter:
    """Collects the tensors of all cases of one model and writes them to one safetensors file."""

    def __init__(self):
        self.tensors = {}
        self.count = 0

    def add(self, inputs, **groups):
        """One case: `inputs` by name and any number of groups (eager, fp64, …) of outputs by name."""
        for group, named in {"input": inputs, **groups}.items():
            for name, tensor in (named or {}).items():
                self.tensors[f"case{self.count}/{group}/{name}"] = tensor.detach().contiguous().clone()
        self.count += 1

    def write(self, path):
        replace_file(path, lambda temporary: save_file(self.tensors, temporary))


def replace_file(path, write):
    """Lets `write` make a file beside `path` and renames it, so that readers never see half a file."""
    temporary = Path(f"{path}.{os.getpid()}.part")
    write(temporary)
    os.replace(temporary, path)


def write_json(path, value):
    replace_file(path, lambda temporary: temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8"))


def read_json(path):
    """The file's value, or None where there is none that can be read."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def hash_scripts(*paths):
    digest = hashlib.sha256()
    for path in sorted(map(str, paths)):
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()[:16]


def describe_dims(exported, name):
    """Extents of an input of an ExportedProgram: numbers, and symbols as text."""
    for node in exported.graph.nodes:
        if node.op == "placeholder" and node.name == name:
            return [int(d) if isinstance(d, int) else str(d) for d in node.meta["val"].shape]
    return None


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def count_targets(exported):
    """Target → how often it occurs, subgraphs included."""
    counts = {}
    for module in exported.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            if node.op == "call_function":
                name = target_name(node.target)
                counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))


def target_name(target):
    """As `.pt2` files name it: aten.add.Tensor, _operator.floordiv, torch.sym_max, higher_order.cond."""
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"higher_order.{target}"
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return f"{target.__module__}.{target.__name__}"
