#!/usr/bin/env python3
"""Writes the golden files of this folder anew; needs numpy and torch. The tests state what is in them."""
import collections
import json
import os
import struct

import numpy as np
import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(HERE, name)


def write_safetensors():
    data = np.arange(6, dtype="<f4").reshape(2, 3)
    data[1, 2] = 5.5
    header = {
        "__metadata__": {"format": "pt"},
        "linear.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]},
        "steps": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]},
        "half": {"dtype": "BF16", "shape": [1], "data_offsets": [32, 34]},
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path("golden.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.write(struct.pack("<q", -7) + data.tobytes() + struct.pack("<H", 0x3F80))


def write_numpy():
    matrix = np.arange(6, dtype="<f4").reshape(2, 3)
    np.save(path("c_order.npy"), matrix)
    np.save(path("fortran_order.npy"), np.asfortranarray(matrix))
    np.save(path("scalar.npy"), np.float64(2.5))
    np.save(path("empty.npy"), np.zeros((0, 3), dtype=np.int16))
    np.save(path("big_endian.npy"), matrix.astype(">f4"))
    np.save(path("object.npy"), np.array([{}, 1], dtype=object), allow_pickle=True)
    np.save(path("structure.npy"), np.zeros(2, dtype=[("a", "<i4"), ("b", "<f4")]))
    for version in ((2, 0), (3, 0)):
        with open(path(f"version{version[0]}.npy"), "wb") as file:
            np.lib.format.write_array(file, matrix, version=version)
    arrays = {"a": matrix, "b": np.array([True, False]), "deep/c": np.arange(3, dtype=np.complex128)}
    np.savez(path("stored.npz"), **arrays)
    np.savez_compressed(path("deflated.npz"), **arrays)


def write_torch():
    base = torch.arange(12, dtype=torch.float32)
    value = {
        "tensor": base.reshape(3, 4),
        "view": base.reshape(3, 4).t()[1:, :2],
        "parameter": torch.nn.Parameter(torch.ones(2, dtype=torch.float64)),
        "scalar": torch.tensor(True),
        "empty": torch.empty(0, 5, dtype=torch.int32),
        "float8": torch.ones(2).to(torch.float8_e4m3fn),
        "uint16": torch.tensor([65535], dtype=torch.uint16),
        "nested": [1, (2.5, None, [True, False]), {3: "three", "ä": -(2**40)}],
        "ordered": collections.OrderedDict(x=torch.zeros(1, dtype=torch.bfloat16)),
        "dtype": torch.float16,
        "device": torch.device("cuda", 1),
        "size": torch.Size([4, 5]),
    }
    torch.save(value, path("nested.pt"))
    torch.manual_seed(0)
    torch.save(torch.nn.Linear(2, 1).state_dict(), path("state_dict.pt"))


write_safetensors()
write_numpy()
write_torch()
