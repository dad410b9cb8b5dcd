"""Makes experts.safetensors: grouped-expert LoRA by plain means, one token and one choice after the other.
README.md has the layout.

    python make_experts.py [--output experts.safetensors]

Values in float64 come from experts with merged weights; values in bfloat16 from separate branches, rounded
where NeMo AutoModel's eager paths round ("loop": one expert after the other; "grouped": all at once). With two
ranks every rank sums its own experts in float32, and the ranks' sums are added in float32.
"""

import argparse
import os
import pathlib

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from safetensors.torch import save_file

torch.set_num_threads(1)
F32, F64, BF16 = torch.float32, torch.float64, torch.bfloat16

ACTIVATIONS = ["swiglu", "swiglu_limit", "swigluoai", "quick_geglu", "geglu", "relu2"]
FACTORS = ["A1", "B1", "A2", "B2"]


def split(h, kind):
    if kind == "quick_geglu":
        return h[..., ::2], h[..., 1::2]
    return h.chunk(2, dim=-1)


def activation(h, w, kind, limit):
    """f(h) * w in h's type; w None: no factor. Every step rounds to that type but for clamped and shifted gates,
    which run in float32."""
    c = h.dtype
    wide = F64 if c == F64 else F32
    if kind == "relu2":
        y = torch.relu(h).square()
    else:
        gate, up = split(h, kind)
        if kind in ("swiglu_limit", "swigluoai"):
            gate, up = gate.to(wide), up.to(wide)
        if kind in ("swiglu_limit", "swigluoai", "quick_geglu"):
            gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        if kind in ("swigluoai", "quick_geglu"):
            y = gate * torch.sigmoid(1.702 * gate) * (up + 1)
        elif kind == "geglu":
            y = torch.nn.functional.gelu(gate, approximate="tanh") * up
        else:
            y = torch.nn.functional.silu(gate) * up
    if w is not None:
        y = y.to(wide) * w.to(wide)
    return y.to(c)


def rows(case):
    """(token, choice, expert) of every route, by token and choice."""
    for t in range(case["indices"].shape[0]):
        for k in range(case["indices"].shape[1]):
            e = int(case["indices"][t, k])
            if case["mask"][t] and 0 <= e < case["W1"].shape[0]:
                yield t, k, e


def merged(case, before, kind, limit):
    """Output in float64 from merged weights, differentiable."""
    w1 = case["W1"] + case["scale"] * torch.bmm(case["B1"], case["A1"])
    w2 = case["W2"] + case["scale"] * torch.bmm(case["B2"], case["A2"])
    y = [torch.zeros_like(row) for row in case["x"]]
    for t, k, e in rows(case):
        w = case["weights"][t, k]
        h = w1[e] @ case["x"][t]
        if case["b1"] is not None:
            h = h + case["b1"][e]
        out = w2[e] @ activation(h, w if before else None, kind, limit)
        if case["b2"] is not None:
            out = out + (case["b2"][e] * w if before else case["b2"][e])
        y[t] = y[t] + (out if before else out * w)
    return torch.stack(y)


def product(matrix, x):
    """Summed in float32, rounded once."""
    return (matrix.float() @ x.float()).to(BF16)


def rounded(case, before, kind, limit, path, ranks):
    """Output in bfloat16, every step rounded."""
    experts = case["W1"].shape[0]
    owner = lambda e: 0 if ranks == 1 or e < (experts + 1) // 2 else 1
    tokens, width = case["x"].shape
    scale = torch.tensor(case["scale"], dtype=F32)

    def project(matrix, a, b, x):
        delta = (product(b, product(a, x)).float() * scale).to(BF16)
        return product(matrix, x) + delta

    total = None
    for rank in range(ranks):
        sums = torch.zeros(tokens, width, dtype=F32)
        mine = [r for r in rows(case) if owner(r[2]) == rank]
        if before:
            mine.sort(key=lambda r: (r[2], r[0], r[1]))
        for t, k, e in mine:
            w = case["weights"][t, k]
            h = project(case["W1"][e], case["A1"][e], case["B1"][e], case["x"][t])
            if case["b1"] is not None:
                h = h + case["b1"][e]
            a = activation(h, w if before else None, kind, limit)
            out = project(case["W2"][e], case["A2"][e], case["B2"][e], a)
            if before:
                if case["b2"] is not None:
                    out = out.float() + case["b2"][e].float() * w
                    out = out.to(BF16) if path == "grouped" else out
                sums[t] += out.float()
            else:
                out = out if case["b2"] is None else out + case["b2"][e]
                sums[t] += out.float() * w
        total = sums if total is None else total + sums
    return total.to(BF16)


def draw(generator, shape, size):
    return (torch.rand(shape, generator=generator, dtype=F32) * 2 - 1) * size


def inputs(seed, kind, tokens, top_k, experts, width, inner, rank, scale, zero_b=False):
    g = torch.Generator().manual_seed(seed)
    gate_up = inner if kind == "relu2" else 2 * inner
    case = {
        "x": draw(g, (tokens, width), 0.7),
        "W1": draw(g, (experts, gate_up, width), 0.7),
        "W2": draw(g, (experts, width, inner), 0.7),
        "b1": draw(g, (experts, gate_up), 0.7),
        "b2": draw(g, (experts, width), 0.7),
        "A1": draw(g, (experts, rank, width), 0.7),
        "B1": draw(g, (experts, gate_up, rank), 0.2),
        "A2": draw(g, (experts, rank, inner), 0.7),
        "B2": draw(g, (experts, width, rank), 0.2),
        "g": draw(g, (tokens, width), 0.7),
        "scale": scale,
    }
    w = torch.rand(tokens, top_k, generator=g, dtype=F32) + 0.1
    case["weights"] = w / w.sum(-1, keepdim=True)
    return case


def cast(case, dtype, bias):
    """Values that bfloat16 holds exactly, so that every type starts from the same numbers."""
    result = dict(case)
    for name, value in case.items():
        if torch.is_tensor(value) and value.is_floating_point() and name != "weights":
            result[name] = value.to(BF16).to(dtype)
    result["weights"] = case["weights"].to(F64 if dtype == F64 else F32)
    if not bias:
        result["b1"] = result["b2"] = None
    return result


def gradients(case, before, kind, limit):
    leaves = ["x", "weights", *FACTORS]
    for name in leaves:
        case[name] = case[name].detach().clone().requires_grad_(True)
    y = merged(case, before, kind, limit)
    (y * case["g"]).sum().backward()
    result = {"y": y.detach()}
    for name in leaves:
        grad = case[name].grad
        result["d" + name] = torch.zeros_like(case[name]) if grad is None else grad
    return result


def store(out, prefix, values, dtype=F32):
    for name, value in values.items():
        if torch.is_tensor(value):
            out[f"{prefix}/{name}"] = (value.to(dtype) if value.is_floating_point() else value).contiguous()


def routing_suite(out):
    """E = 3, K = 2, all sizes 4, r = 2, alpha 3, seed 913; uneven groups, choices in falling order of experts."""
    for kind in ("relu2", "swiglu_limit"):
        base = inputs(913, kind, 3, 2, 3, 4, 4, 2, 1.5)
        base["indices"] = torch.tensor([[2, 0], [1, 0], [0, 2]])
        base["mask"] = torch.tensor([True, True, False])
        stored = cast(base, F32, True)
        store(out, f"suite/{kind}", {**stored, "indices": base["indices"], "mask": base["mask"]})
        for before in (True, False):
            for bias in (False, True):
                name = f"suite/{kind}/{'before' if before else 'after'}/{'bias' if bias else 'nobias'}"
                case = cast(base, F64, bias)
                result = gradients(case, before, kind, 0.7)
                stepped = {**case}
                for factor in FACTORS:
                    stepped[factor] = case[factor].detach() - 0.05 * result["d" + factor]
                result["y_after_step"] = merged(stepped, before, kind, 0.7).detach()
                plain = cast(base, F64, bias)
                for factor in ("B1", "B2"):
                    plain[factor] = torch.zeros_like(plain[factor])
                parent = gradients(plain, before, kind, 0.7)
                for key in ("y", "dx", "dweights"):
                    result["base_" + key] = parent[key]
                store(out, name, result)
                narrow = cast(base, BF16, bias)
                zero = {**narrow, "B1": torch.zeros_like(narrow["B1"]), "B2": torch.zeros_like(narrow["B2"])}
                for path in ("loop", "grouped"):
                    for ranks in (1, 2):
                        y = rounded(narrow, before, kind, 0.7, path, ranks)
                        out[f"{name}/bf16_{path}_{ranks}"] = y
                    out[f"{name}/bf16_base_{path}"] = rounded(zero, before, kind, 0.7, path, 1)


def wider(out):
    """Every activation, K = 1, 3 and 6, r = 5, out-of-range choices, a masked token; with K = 1 one expert has
    every token."""
    for i, kind in enumerate(ACTIVATIONS):
        for before in (True, False):
            top_k = (1, 3, 6)[(i + before) % 3]
            base = inputs(500 + i, kind, 6, top_k, 7, 6, 4, 5, 0.4)
            g = torch.Generator().manual_seed(70 + i)
            choices = torch.stack([torch.randperm(7, generator=g)[:top_k] for _ in range(6)])
            if top_k == 1:
                choices[:] = 3
            else:
                choices[2, 0], choices[4, 1] = 7, -1
            base["indices"], base["mask"] = choices, torch.tensor([True, True, True, True, True, top_k == 1])
            name = f"wider/{kind}/{'before' if before else 'after'}"
            stored = cast(base, BF16, True)
            store(out, name, {k: v for k, v in stored.items() if k != "weights"}, BF16)
            out[f"{name}/weights"] = stored["weights"]
            store(out, name, gradients(cast(base, F64, True), before, kind, 0.6))
            out[f"{name}/bf16_grouped_1"] = rounded(cast(base, BF16, True), before, kind, 0.6, "grouped", 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default=pathlib.Path(__file__).with_name("experts.safetensors"))
    out = {}
    routing_suite(out)
    wider(out)
    save_file(out, str(parser.parse_args().output))


if __name__ == "__main__":
    main()
