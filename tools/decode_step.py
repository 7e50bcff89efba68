"""A step of decoding with a static cache of keys and values that lives in the module's buffers."""

import torch
from transformers import StaticCache

STATE = ("keys", "values", "cumulative_length")


class DecodeStep(torch.nn.Module):
    """Takes the next tokens of each sequence, writes their keys and values into the buffers, returns the logits.

    With `with_position` the caller says where the first one stands; otherwise a counter in the buffers does.
    """

    def __init__(self, model, batch, capacity, with_position):
        super().__init__()
        self.model = model
        self.with_position = with_position
        config = model.config
        self.cache = StaticCache(config=config, max_cache_len=capacity)
        head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.cache.early_initialization(batch, config.num_key_value_heads, head_size, model.dtype, model.device)
        for index, layer in enumerate(self.cache.layers):
            for name in STATE:
                self.register_buffer(f"{name}_{index}", getattr(layer, name), persistent=not with_position)

    def forward(self, input_ids, cache_position=None):
        for index, layer in enumerate(self.cache.layers):
            # Conversions and the exporter replace the module's buffers: the cache must work on those of this call.
            for name in STATE:
                setattr(layer, name, getattr(self, f"{name}_{index}"))
            if self.with_position:
                layer.cumulative_length.copy_(cache_position[0])
        return self.model(input_ids=input_ids, past_key_values=self.cache, use_cache=True).logits
