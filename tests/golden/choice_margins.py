"""How clearly a model chooses: fixtures whose choices could fall otherwise by rounding test nothing."""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode

MASKED = -1e30  # below that a candidate isn't one


class ChoiceMargins(TorchDispatchMode):
    """`smallest`: the least distance of any top-k inside the block between the last candidate that
    is taken and the first that isn't, as a share of the largest candidate in its row."""

    def __init__(self):
        super().__init__()
        self.smallest = math.inf

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.topk.default and args[1] < args[0].shape[-1]:
            ordered = args[0].detach().double().sort(dim=-1, descending=True).values
            taken, left = ordered[..., args[1] - 1], ordered[..., args[1]]
            largest = torch.where(ordered > MASKED, ordered.abs(), 0).amax(dim=-1)
            margins = ((taken - left) / largest)[left > MASKED]
            if margins.numel() > 0:
                self.smallest = min(self.smallest, float(margins.min()))
        return func(*args, **(kwargs or {}))
