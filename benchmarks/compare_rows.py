"""The rows of compare.py: models with a shape, written `MODEL:EXTENTS`. Pure functions."""

KINDS = {"float32": "fp32", "bfloat16": "bf16"}
# Batch x sequence, batch of images or of recordings; of a decoding step, sequences x places of its cache.
GPU_ROWS = ("bert:1x128", "bert:32x128", "gpt2:1x256", "gpt2:16x256", "llama:1x512", "llama:8x512", "llama_decode:1x512",
            "vit:1", "vit:32", "resnet50:1", "resnet50:32", "whisper_encoder:1")


def expand_rows(names):
    """`gpu` stands for all rows of that list; the order stays, repetitions do not."""
    rows = [row for name in names for row in (GPU_ROWS if name == "gpu" else (name,))]
    for row in rows:
        model, _, shape = row.partition(":")
        if not model or not all(part.isdecimal() and int(part) > 0 for part in shape.split("x")):
            raise ValueError(f"'{row}' is no row: expected gpu, or a model and a shape such as bert:32x128 or vit:1")
    return tuple(dict.fromkeys(rows))


def export_pattern(row, dtype):
    """As export_models.py takes it: bert:32x128 gives bert_bf16_static:32x128."""
    model, _, shape = row.partition(":")
    return f"{model}_{KINDS[dtype]}_static:{shape}"


def static_pattern(pattern, dtype):
    """Of the files with fixed sizes: qwen2 gives qwen2_fp32_static, minilm* gives minilm*fp32_static."""
    kind = KINDS[dtype]
    if kind in pattern:
        return pattern
    return f"{pattern}{'' if pattern.endswith('*') else '_'}{kind}_static"


def batch_of(row):
    """The first extent: a batch, or the sequences of a decoding step."""
    return int(row.partition(":")[2].split("x")[0])


def entry_name(row, dtype):
    """As export_models.py names the file: bert_bf16_static_32x128."""
    return export_pattern(row, dtype).replace(":", "_")
