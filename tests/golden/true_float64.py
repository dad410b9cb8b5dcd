"""Makes PyTorch code that asks for float32 (or bfloat16) by name compute in float64.

`model.double()` isn't enough: norms, softmax and rotary tables of transformers cast to float32
themselves, which leaves errors of 1e-6 and more on logits. `RealPrecision` sits at PyTorch's
dispatcher, below autograd, where every such cast is one operator with a dtype argument; it replaces
that argument and then insists that no other floating type ever comes out of an operator, so a cast
that slipped through is an exception, not a silently worse reference.
"""

import contextlib

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

LOWER = (torch.float32, torch.bfloat16, torch.float16)


class RealPrecision(TorchDispatchMode):
    """Every floating-point result inside the block has the type `dtype`."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        self.dtype = dtype

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        swap = lambda a: self.dtype if any(a is d for d in LOWER) else a
        args = tree_map(swap, args)
        kwargs = tree_map(swap, kwargs or {})
        out = func(*args, **kwargs)
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
                if leaf.dtype is not self.dtype:
                    raise TypeError(f"{func} gave {leaf.dtype}, not {self.dtype}")
        return out


@contextlib.contextmanager
def real_precision(dtype=torch.float64):
    """RealPrecision, and factories without a dtype (`torch.arange(3.0)`) follow too."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with RealPrecision(dtype):
            yield
    finally:
        torch.set_default_dtype(before)


def recompute_inverse_frequencies(model):
    """Default RoPE only: theta ** (-2 i / head_dim) in float64 instead of the float32 buffer."""
    for module in model.modules():
        if not hasattr(module, "inv_freq"):
            continue
        rope = module.config.rope_parameters
        if rope["rope_type"] != "default":
            raise ValueError(f"rope type {rope['rope_type']} has no float64 recipe here")
        half = module.inv_freq.numel()
        exponent = torch.arange(half, dtype=torch.float64) / half
        exact = rope["rope_theta"] ** -exponent
        if not torch.allclose(exact.float(), module.inv_freq.float(), rtol=1e-5):
            raise ValueError("the float64 rope frequencies aren't those of the model")
        module.inv_freq = exact
        module.original_inv_freq = exact.clone()
