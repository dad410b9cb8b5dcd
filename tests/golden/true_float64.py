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
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

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
    """Rotary frequencies and the scale of embeddings in float64 instead of the float32 buffers."""
    for module in model.modules():
        if hasattr(module, "scalar_embed_scale"):
            module.embed_scale = torch.tensor(module.scalar_embed_scale, dtype=torch.float64)
        if not hasattr(module, "rope_type"):
            continue
        if isinstance(module.rope_type, dict):  # one set per type of layer
            for layer_type, kind in module.rope_type.items():
                _recompute(module, kind, f"{layer_type}_", {"layer_type": layer_type})
        else:
            _recompute(module, module.rope_type, "", {})


def _recompute(module, kind, prefix, options):
    buffer = getattr(module, f"{prefix}inv_freq")
    parameters = module.config.rope_parameters
    if kind == "longrope":  # torch.tensor(list, dtype=float32) can't be intercepted
        head_dim = getattr(module.config, "head_dim", None) or (
            module.config.hidden_size // module.config.num_attention_heads)
        channels = int(head_dim * parameters.get("partial_rotary_factor", 1.0))
        plain = parameters["rope_theta"] ** (
            -torch.arange(0, channels, 2, dtype=torch.float64) / channels)
        exact = plain / torch.tensor(parameters["short_factor"], dtype=torch.float64)
        module.long_inv_freq = plain / torch.tensor(parameters["long_factor"], dtype=torch.float64)
    else:
        make = (module.compute_default_rope_parameters if kind == "default"
                else ROPE_INIT_FUNCTIONS[kind])
        with real_precision():
            exact, _ = make(module.config, device=buffer.device, **options)
    if exact.dtype is not torch.float64 or not torch.allclose(exact, buffer.double(), rtol=1e-5):
        raise ValueError("the float64 rope frequencies aren't those of the model")
    setattr(module, f"{prefix}inv_freq", exact)
    setattr(module, f"{prefix}original_inv_freq", exact.clone())
