#!/usr/bin/env python3
"""BERT and ViT written in jax.numpy, run by JAX on the weights of an exported model: jax_equivalents.py's other side.

Obeys commands on standard input, a JSON line each, as peer_models.py does:

  load WEIGHTS_FILE CASES_FILE   {"load_seconds": …, "device": …}: compiled for the inputs of case 0, and run once
  run N                          {"times_ms": […]} of N runs
  outputs FILE                   writes what the last run gave as safetensors, by position: {"outputs": 2}
  quit

Everything is float32 with products in full precision, as our StableHLO asks for. Weights lie on the device; inputs come
from the host and answers go there in every run. Inputs that are int64 are made int32 before, which JAX would otherwise
do in every run. Needs jax, numpy and safetensors, not torch.
"""

import argparse
import json
import math
import os
import re
import sys
import time

# Parts of a layer, by the names that versions of transformers have given them.
LAYER = {
    "query": r"attention\.(self\.query|attention\.query|q_proj)", "key": r"attention\.(self\.key|attention\.key|k_proj)",
    "value": r"attention\.(self\.value|attention\.value|v_proj)", "out": r"attention\.(output\.dense|o_proj|out_proj)",
    "first_norm": r"attention\.output\.LayerNorm|layernorm_before", "second_norm": r"output\.LayerNorm|layernorm_after",
    "wide": r"intermediate\.dense|mlp\.fc1", "narrow": r"output\.dense|mlp\.fc2",
}
NORM_EPSILON = 1e-12  # of both configurations


def arrange(weights):
    """{"layers": [{"query": (weight, bias), …}, …], "rest": {name: array}} of the names in a state dict."""
    layers, rest = {}, {}
    for name, array in weights.items():
        found = re.fullmatch(r"(?:\w+\.)?(?:encoder\.)?layers?\.(\d+)\.(.+)\.(weight|bias)", name)
        if not found:
            rest[name.removeprefix("vit.")] = array
            continue
        part = next((key for key, pattern in LAYER.items() if re.fullmatch(pattern, found[2])), None)
        if part is None:
            raise ValueError(f"{name} is not known: this version of transformers names its layers otherwise")
        layers.setdefault(int(found[1]), {}).setdefault(part, {})[found[3]] = array
    ordered = [layers[index] for index in sorted(layers)]
    for index, layer in enumerate(ordered):
        missing = [part for part in LAYER if set(layer.get(part, ())) != {"weight", "bias"}]
        if missing:
            raise ValueError(f"layer {index} lacks {', '.join(missing)}")
    return {"layers": ordered, "rest": rest}


def linear(x, part):
    return x @ part["weight"].T + part["bias"]


def part_of(rest, name):
    return {"weight": rest[f"{name}.weight"], "bias": rest[f"{name}.bias"]}


def norm(x, part):
    import jax.numpy as jnp
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(variance + NORM_EPSILON) * part["weight"] + part["bias"]


def attend(x, layer, heads, mask=None):
    import jax
    import jax.numpy as jnp
    batch, length, width = x.shape
    def split(name):
        return linear(x, layer[name]).reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)
    scores = split("query") @ split("key").transpose(0, 1, 3, 2) / math.sqrt(width // heads)
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    mixed = jax.nn.softmax(scores, axis=-1) @ split("value")
    return linear(mixed.transpose(0, 2, 1, 3).reshape(batch, length, width), layer["out"])


def feed(x, layer):
    import jax
    return linear(jax.nn.gelu(linear(x, layer["wide"]), approximate=False), layer["narrow"])


def bert(weights, inputs, heads):
    """Norms behind the sums; the pooler looks at the first place."""
    import jax.numpy as jnp
    rest, ids = weights["rest"], inputs["input_ids"]
    x = (rest["embeddings.word_embeddings.weight"][ids]
         + rest["embeddings.position_embeddings.weight"][:ids.shape[1]]
         + rest["embeddings.token_type_embeddings.weight"][inputs["token_type_ids"]])
    x = norm(x, part_of(rest, "embeddings.LayerNorm"))
    mask = (inputs["attention_mask"] != 0)[:, None, None, :]
    for layer in weights["layers"]:
        x = norm(x + attend(x, layer, heads, mask), layer["first_norm"])
        x = norm(x + feed(x, layer), layer["second_norm"])
    return x, jnp.tanh(linear(x[:, 0], part_of(rest, "pooler.dense")))


def vit(weights, inputs, heads):
    """Norms before the parts; the classifier looks at the first place."""
    import jax
    import jax.numpy as jnp
    rest, pixels = weights["rest"], inputs["pixel_values"]
    patches = part_of(rest, "embeddings.patch_embeddings.projection")
    x = jax.lax.conv_general_dilated(pixels, patches["weight"], patches["weight"].shape[2:], "VALID",
                                     dimension_numbers=("NCHW", "OIHW", "NCHW"))
    x = (x + patches["bias"][:, None, None]).reshape(*x.shape[:2], -1).transpose(0, 2, 1)
    first = jnp.broadcast_to(rest["embeddings.cls_token"], (x.shape[0], 1, x.shape[2]))
    x = jnp.concatenate([first, x], axis=1) + rest["embeddings.position_embeddings"]
    for layer in weights["layers"]:
        x = x + attend(norm(x, layer["first_norm"]), layer, heads)
        x = x + feed(norm(x, layer["second_norm"]), layer)
    return (linear(norm(x, part_of(rest, "layernorm"))[:, 0], part_of(rest, "classifier")),)


MODELS = {"bert": bert, "vit": vit}


class JaxRun:
    def __init__(self, model, heads, weights_file, cases_file):
        import jax
        import numpy
        from safetensors.numpy import load_file
        jax.config.update("jax_default_matmul_precision", "highest")
        prefix = "case0/input/"
        given = {key[len(prefix):]: value for key, value in load_file(cases_file).items() if key.startswith(prefix)}
        self.inputs = {name: value.astype(numpy.int32) if value.dtype == numpy.int64 else value
                       for name, value in given.items()}
        self.weights = jax.device_put(arrange(load_file(weights_file)))
        self.function = jax.jit(lambda weights, inputs: MODELS[model](weights, inputs, heads))
        self.device = str(jax.devices()[0])
        self.run()

    def run(self):
        import jax
        self.answer = jax.device_get(self.function(self.weights, self.inputs))


def obey(words, loaded, arguments):
    if words[:1] == ["load"] and len(words) == 3:
        start = time.perf_counter()
        loaded = JaxRun(arguments.model, arguments.heads, *words[1:])
        return {"load_seconds": time.perf_counter() - start, "device": loaded.device}, loaded
    if words[:1] == ["run"] and len(words) == 2 and loaded is not None:
        times = []
        for _ in range(int(words[1])):
            start = time.perf_counter_ns()
            loaded.run()
            times.append((time.perf_counter_ns() - start) / 1e6)
        return {"times_ms": times}, loaded
    if words[:1] == ["outputs"] and len(words) == 2 and loaded is not None:
        import numpy
        from safetensors.numpy import save_file
        save_file({str(index): numpy.ascontiguousarray(array) for index, array in enumerate(loaded.answer)}, words[1])
        return {"outputs": len(loaded.answer)}, loaded
    raise ValueError("expected: load WEIGHTS_FILE CASES_FILE, run N or outputs FILE (after load), or quit")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=tuple(MODELS), required=True)
    parser.add_argument("--heads", type=int, required=True)
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")  # libraries print to standard output as they like
    os.dup2(2, 1)
    loaded = None
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["quit"]:
            break
        try:
            answer, loaded = obey(words, loaded, arguments)
        except Exception as error:  # the driver must get an answer, whatever went wrong
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        print(json.dumps(answer), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
