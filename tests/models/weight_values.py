"""Random weights that let a wrong operation show.

The initial values of Hugging Face models (deviation 0.02, zero biases, unit norms, layer scales of 1e-6) make a model
nearly linear in its embedding: a missing bias or a wrong attention mask would change nothing that a test can see.
"""

import math

import torch


@torch.no_grad()
def fill_weights(module, seed):
    device = next(module.parameters()).device  # drawn where they lie: a billion numbers take a minute on the host
    generator = torch.Generator(device).manual_seed(seed)
    for part in module.modules():
        for name, parameter in part.named_parameters(recurse=False):
            if parameter.dim() > 0:
                parameter.copy_(draw(part, name, parameter, generator))
        for name, buffer in part.named_buffers(recurse=False):
            if name == "running_mean":
                buffer.copy_(0.1 * torch.randn(buffer.shape, generator=generator, device=device))
            elif name == "running_var":
                buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator, device=device))
    for part in module.modules():  # T5 has no scale in its attention: its queries are made small instead
        if type(part).__name__ == "T5Attention":
            part.q.weight.div_(math.sqrt(part.key_value_proj_dim))


def draw(part, name, parameter, generator):
    values = torch.randn(parameter.shape, generator=generator, device=generator.device)
    if name == "bias":
        return values.mul_(0.1)
    if parameter.dim() == 1:
        return values.mul_(0.1).add_(1.0)
    return values.mul_(deviation(part, parameter))


def deviation(part, parameter):
    if isinstance(part, (torch.nn.Linear, torch.nn.modules.conv._ConvNd)):
        return 1.0 / math.sqrt(parameter[0].numel())
    if type(part).__name__ == "Conv1D":  # GPT-2's linear layer, stored transposed
        return 1.0 / math.sqrt(parameter.shape[0])
    return 0.5
