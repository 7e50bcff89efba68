"""Modules of the test set that transformers does not have."""

import torch
from torch import nn
from torch.nn import functional


class SentenceEmbedding(nn.Module):
    """Mean of the token vectors that count, of length one: what a user of MiniLM asks for."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids, attention_mask):
        tokens = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return {"token_embeddings": tokens, "sentence_embedding": functional.normalize(mean, p=2, dim=1)}


class NextToken(nn.Module):
    """Logits of the last place alone, as a service asks for them: those of all places are hundreds of megabytes."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, logits_to_keep=1).logits


class DerivedSizes(nn.Module):
    """Groups of eight rows become one, and neighbours are added: sizes that others are derived from come up inside."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x, y):
        groups = self.second(functional.gelu(self.first(x))).reshape(-1, 8, 4).mean(1)
        return groups, functional.gelu(self.second(y[:-1] + y[1:]))


class NestedOutputs(nn.Module):
    """Dictionaries, lists and tuples in each other, one tensor twice, an input and a weight as output, and a None."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 4)
        self.second = nn.Linear(4, 4)

    def forward(self, x, mask):
        hidden = functional.gelu(self.first(x))
        # Places of the largest and smallest number are taken of an input: between computed numbers that all but tie,
        # another order of additions may choose the other one.
        keys = ((self.second(hidden), x.argmax(-1)), (hidden.sum(-1), x.argmin()))
        return {"hidden": hidden, "past": [{"key": key, "value": (key * 2, place)} for key, place in keys],
                "nothing": None, "again": hidden, "x": x, "bias": self.first.bias,
                "masked": (torch.where(mask, hidden, -1.0),)}
