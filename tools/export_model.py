#!/usr/bin/env python3
"""Exports a Hugging Face model to a .pt2 file that KernelPyTorch loads without Python.

  export_model.py ./my-bert -o bert.pt2                              a folder with config.json and weights
  export_model.py ./my-llama -o llama.pt2 --dtype bf16 --batch 1:16 --sequence 1:2048
  export_model.py ./my-llama -o step.pt2 --static-cache 1024 --batch 1    one decoding step with its cache in the file
  export_model.py ./config.json -o random.pt2 --config-only          random weights, for a first try

A range such as 1:64 lets an extent vary at run time; a single number fixes it. The file is loaded again and compared
with the model before the script ends. docs/how_to/export_a_model.md explains the choices.
"""

import argparse
import inspect
import os
import sys
import time
from pathlib import Path

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import blas_setting  # noqa: E402, F401  before torch
import torch  # noqa: E402
import transformers  # noqa: E402

from decode_step import DecodeStep  # noqa: E402

TASKS = {
    "features": "AutoModel", "text-classification": "AutoModelForSequenceClassification",
    "token-classification": "AutoModelForTokenClassification", "fill-mask": "AutoModelForMaskedLM",
    "question-answering": "AutoModelForQuestionAnswering", "text-generation": "AutoModelForCausalLM",
    "image-classification": "AutoModelForImageClassification", "text-encoder": "AutoModelForTextEncoding",
}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}


class Failure(Exception):
    """Ends the script with this one sentence."""


def parse_extent(text):
    """'4' → (4, 4), '1:64' → (1, 64)."""
    low, _, high = text.partition(":")
    try:
        extent = (int(low), int(high or low))
    except ValueError:
        extent = (0, 0)
    if not 1 <= extent[0] <= extent[1]:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number such as 8 nor a range such as 1:64")
    return extent


def choose_class(config, task):
    if task:
        return getattr(transformers, TASKS[task])
    named = next((name for name in config.architectures or [] if hasattr(transformers, name)), None)
    return getattr(transformers, named) if named else transformers.AutoModel


def load_model(arguments):
    try:
        config = transformers.AutoConfig.from_pretrained(arguments.model)
        model_class = choose_class(config, "text-generation" if arguments.static_cache else arguments.task)
        dtype = DTYPES.get(arguments.dtype) or getattr(config, "dtype", None) or torch.float32
        if arguments.config_only:
            make = getattr(model_class, "from_config", None) or model_class._from_config
            return make(config, dtype=dtype).eval()
        return model_class.from_pretrained(arguments.model, dtype=dtype).eval()
    except (OSError, ValueError, ImportError) as error:
        raise Failure(f"{arguments.model} cannot be loaded: {first_lines(error)}") from error


def first_lines(error, count=2):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:count])[:500]


def make_inputs(model, extents, arguments):
    """Inputs by name, for these extents of batch and sequence."""
    names = inspect.signature(model.forward).parameters
    config = model.config.get_text_config()
    batch, sequence = extents
    inputs = {}
    if "input_ids" in names:
        inputs["input_ids"] = torch.randint(0, config.vocab_size, (batch, sequence))
        if "attention_mask" in names and not arguments.no_mask:
            inputs["attention_mask"] = torch.ones((batch, sequence), dtype=torch.int64)
            inputs["attention_mask"][-1, (sequence + 1) // 2:] = 0
        if "token_type_ids" in names:
            inputs["token_type_ids"] = torch.zeros((batch, sequence), dtype=torch.int64)
    if "pixel_values" in names:
        inputs["pixel_values"] = torch.randn(batch, *image_dims(model.config, arguments), dtype=model.dtype)
    if not inputs or "decoder_input_ids" in names:
        raise Failure(f"{type(model).__name__} takes {', '.join(names)}: this script knows encoders and decoders of "
                      "text and images; for others call torch.export.export as docs/how_to/export_a_model.md shows")
    return inputs


def image_dims(config, arguments):
    vision = getattr(config, "vision_config", config)
    side = arguments.image_size or getattr(vision, "image_size", None) or 224
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    return getattr(vision, "num_channels", 3), height, width


def name_extents(inputs, batch, sequence):
    """dynamic_shapes of torch.export: which dimension of which input is which varying extent."""
    dims = [torch.export.Dim(name, min=low, max=high) if low < high else None
            for name, (low, high) in (("batch", batch), ("sequence", sequence))]
    shapes = {}
    for name, value in inputs.items():
        axes = dims if value.dim() == 2 else dims[:1]
        shapes[name] = {axis: dim for axis, dim in enumerate(axes) if dim is not None}
    return shapes


def pick_inside(extent, preferred):
    """An extent to export with: not 0 or 1, which PyTorch would take for fixed."""
    low, high = extent
    return min(max(low, preferred), high)


def export(module, inputs, shapes):
    """Guards that PyTorch cannot prove for all extents are left to checks at run time, on the second try."""
    refusals = []
    for deferred in (False, True):
        try:
            with torch.no_grad():
                return torch.export.export(module, (), inputs, dynamic_shapes=shapes, strict=False,
                                           prefer_deferred_runtime_asserts_over_guards=deferred)
        except Exception as error:  # the exporter raises many kinds
            refusals.append(first_lines(error, 4))
    raise Failure(f"the exporter of PyTorch {torch.__version__} refuses: {refusals[0]}\n"
                  "Try a fixed extent (--sequence 128, --batch 1), a larger lower bound (--sequence 2:128), --no-mask, "
                  "or a newer PyTorch.")


def compare(module, path, all_inputs):
    """Largest difference between model and file over the given inputs, relative to the largest output."""
    loaded = torch.export.load(path).module()
    worst = 0.0
    for inputs in all_inputs:
        with torch.no_grad():
            expected, actual = module(**inputs), loaded(**inputs)
        for one, other in zip(torch.utils._pytree.tree_leaves(expected), torch.utils._pytree.tree_leaves(actual)):
            if isinstance(one, torch.Tensor) and one.is_floating_point() and one.numel():
                scale = max(one.abs().max().item(), 1e-6)
                worst = max(worst, ((one.double() - other.double()).abs().max().item()) / scale)
    return worst


def describe(exported, path):
    for spec in exported.graph_signature.input_specs:
        if spec.kind == torch.export.graph_signature.InputKind.USER_INPUT:
            node = next(n for n in exported.graph.nodes if n.name == spec.arg.name)
            value = node.meta["val"]
            dims = ", ".join(str(dim) for dim in value.shape)
            print(f"  input   {spec.arg.name}: {str(value.dtype).removeprefix('torch.')}[{dims}]")
    for symbol, bounds in exported.range_constraints.items():
        print(f"  symbol  {symbol}: {bounds.lower} to {bounds.upper}")
    print(f"  {len(exported.graph.nodes)} nodes, {path.stat().st_size / 1e6:.1f} MB")


def export_whole(model, arguments):
    longest = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    batch, sequence = arguments.batch, arguments.sequence or (1, min(512, longest or 512))
    if longest and sequence[1] > longest:
        raise Failure(f"--sequence ends at {sequence[1]}, but the model has {longest} positions")
    model.config.use_cache = False
    inputs = make_inputs(model, (pick_inside(batch, 2), pick_inside(sequence, 16)), arguments)
    exported = export(model, inputs, name_extents(inputs, batch, sequence))
    trials = [inputs, make_inputs(model, (batch[0], pick_inside(sequence, 7)), arguments)]
    return model, exported, trials


def export_step(model, arguments):
    """One token in, logits out, the cache of keys and values in buffers that the program writes."""
    low, high = arguments.batch
    if low != high:
        if arguments.batch_given:
            raise Failure("--static-cache needs a fixed --batch, since the cache is part of the file")
        low = 1
    module = DecodeStep(model, low, arguments.static_cache, with_position=True).eval()
    inputs = {"input_ids": torch.randint(0, model.config.get_text_config().vocab_size, (low, 1)),
              "cache_position": torch.tensor([0])}
    return module, export(module, inputs, None), [inputs]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL_OR_FOLDER", help="folder, config.json (with --config-only) or hub name")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the .pt2 file to write")
    parser.add_argument("--task", choices=sorted(TASKS), help="which head (default: the one that the folder names)")
    parser.add_argument("--dtype", choices=["auto", *DTYPES], default="auto", help="default: as the folder says")
    parser.add_argument("--batch", type=parse_extent, metavar="N|A:B", help="default 1:64")
    parser.add_argument("--sequence", type=parse_extent, metavar="N|A:B",
                        help="default 1:512, or up to the model's positions")
    parser.add_argument("--image-size", type=int, metavar="N", help="default: as the folder says")
    parser.add_argument("--no-mask", action="store_true", help="without attention_mask: all tokens count")
    parser.add_argument("--static-cache", type=int, metavar="N", help="one decoding step with a cache of N tokens")
    parser.add_argument("--config-only", action="store_true", help="random weights; needs no weights in the folder")
    arguments = parser.parse_args()
    arguments.batch_given = arguments.batch is not None
    arguments.batch = arguments.batch or (1, 64)
    return arguments


def run(arguments):
    if Path(arguments.model).exists():
        os.environ["HF_HUB_OFFLINE"] = "1"
    transformers.logging.disable_progress_bar()
    start = time.monotonic()
    model = load_model(arguments)
    make = export_step if arguments.static_cache else export_whole
    module, exported, trials = make(model, arguments)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    torch.export.save(exported, arguments.output)
    worst, limit = compare(module, arguments.output, trials), TOLERANCES[model.dtype]
    if not worst <= limit:
        raise Failure(f"{arguments.output} computes something else than the model (relative difference {worst:.2g}, "
                      f"limit {limit:g}); please report it with the versions of torch and transformers")
    print(f"{arguments.output}: {type(model).__name__}, {time.monotonic() - start:.1f} s, torch {torch.__version__}")
    describe(exported, arguments.output)
    print(f"  agrees with the model: largest relative difference {worst:.1e}")


def main():
    arguments = parse_arguments()
    try:
        run(arguments)
    except Failure as failure:
        print(f"export_model: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
