"""Makes optim.json: what torch.optim.Muon, torch.optim.AdamW, clipping and the learning-rate
schedules of transformers give on small inputs. README.md has the layout and the formulas.

    python make_optim.py [--output optim.json]
"""

import argparse
import json
import os
import pathlib

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import transformers

from true_float64 import real_precision

torch.set_num_threads(1)
F32, F64 = torch.float32, torch.float64


def flat(tensor):
    return tensor.detach().double().flatten().tolist()


def worst(a, b):
    """max |a - b| / max |b| over lists of equal length."""
    top = max(abs(x) for x in b)
    return max(abs(x - y) for x, y in zip(a, b)) / top if top else 0.0


def inputs(shape, steps, seed, zero_step=None):
    """Values that float32 holds exactly, so both precisions start from the same numbers."""
    g = torch.Generator().manual_seed(seed)
    draw = lambda scale: (scale * torch.randn(shape, generator=g, dtype=F32)).double()
    gradients = [draw(10.0 ** (i - 1)) for i in range(steps)]
    if zero_step is not None:
        gradients[zero_step].zero_()
    return draw(0.5), gradients


def run(make_optimizer, initial, gradients, dtype, lrs=None, precision=None):
    """-> (parameter after each step, final optimizer state)."""
    p = torch.nn.Parameter(initial.to(dtype, copy=True))
    optimizer = make_optimizer([p])
    after = []
    for i, gradient in enumerate(gradients):
        p.grad = gradient.to(dtype)
        if lrs:
            optimizer.param_groups[0]["lr"] = lrs[i]
        if precision:
            with real_precision(precision):
                optimizer.step()
        else:
            optimizer.step()
        after.append(flat(p))
    return after, optimizer.state[p]


def muon_case(name, shape, seed, options, zero_step=None):
    options = {"lr": 0.02, "momentum": 0.95, "nesterov": True, "weight_decay": 0.0, **options}
    make = lambda ps: torch.optim.Muon(ps, **options)
    initial, gradients = inputs(shape, 3, seed, zero_step)
    after, state = run(make, initial, gradients, F64, precision=F64)
    after_f32, _ = run(make, initial, gradients, F32, precision=F32)
    as_shipped, _ = run(make, initial, gradients, F32)  # Newton-Schulz in bfloat16
    defaults = make([torch.nn.Parameter(initial)]).defaults
    return {"name": name, "rows": shape[0], "cols": shape[1], **options,
            "ns_steps": defaults["ns_steps"], "ns_coefficients": list(defaults["ns_coefficients"]),
            "ns_eps": defaults["eps"], "initial": flat(initial),
            "gradients": [flat(x) for x in gradients], "after": after, "after_f32": after_f32,
            "momentum_buffer": flat(state["momentum_buffer"]),
            "f32_error": max(map(worst, after_f32, after)),
            "bf16_newton_schulz_error": max(map(worst, as_shipped, after))}


def adamw_case(name, shape, seed, options, lrs, zero_step=None):
    options = {"betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.0, **options}
    make = lambda ps: torch.optim.AdamW(ps, lr=lrs[0], foreach=False, **options)
    initial, gradients = inputs(shape, len(lrs), seed, zero_step)
    after, state = run(make, initial, gradients, F64, lrs)
    after_f32, _ = run(make, initial, gradients, F32, lrs)
    return {"name": name, "size": initial.numel(), **options, "lrs": lrs, "initial": flat(initial),
            "gradients": [flat(x) for x in gradients], "after": after, "after_f32": after_f32,
            "exp_avg": flat(state["exp_avg"]), "exp_avg_sq": flat(state["exp_avg_sq"]),
            "f32_error": max(map(worst, after_f32, after))}


def clip_case(max_norm, tensors):
    parameters = []
    for values in tensors:
        p = torch.nn.Parameter(torch.zeros(len(values), dtype=F64))
        p.grad = torch.tensor(values, dtype=F64)
        parameters.append(p)
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm, foreach=False)
    return {"max_norm": max_norm, "gradients": tensors, "norm": float(norm),
            "clipped": [flat(p.grad) for p in parameters]}


def schedule_case(name, warmup, total, min_lr_ratio=0.0):
    base = 2e-4
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=base)
    if name == "constant":
        schedule = transformers.get_constant_schedule_with_warmup(optimizer, warmup)
    elif name == "linear":
        schedule = transformers.get_linear_schedule_with_warmup(optimizer, warmup, total)
    elif min_lr_ratio:
        schedule = transformers.get_cosine_with_min_lr_schedule_with_warmup(
            optimizer, warmup, total, min_lr_rate=min_lr_ratio)
    else:
        schedule = transformers.get_cosine_schedule_with_warmup(optimizer, warmup, total)
    lrs = []
    for _ in range(total + 1):  # one past the end: what a run that goes on would see
        lrs.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return {"name": name, "warmup_steps": warmup, "total_steps": total,
            "min_lr_ratio": min_lr_ratio, "base_lr": base, "lrs": lrs}


def build():
    warm = [0.0, 5e-3, 1e-2, 7.5e-3, 2.5e-3]
    return {
        "made_with": {"torch": torch.__version__.split("+")[0],
                      "transformers": transformers.__version__},
        "muon": [
            muon_case("wide", (5, 7), 1, {}),
            muon_case("tall", (9, 4), 2, {"weight_decay": 0.1}),
            muon_case("square, no nesterov", (6, 6), 3, {"nesterov": False, "weight_decay": 0.01}),
            muon_case("one row", (1, 5), 4, {"momentum": 0.8}),
            muon_case("one column", (5, 1), 5, {}),
            muon_case("first gradient zero", (4, 3), 6, {"weight_decay": 0.1}, zero_step=0),
            muon_case("no momentum", (3, 8), 7, {"momentum": 0.0, "nesterov": False}),
        ],
        "adamw": [
            adamw_case("defaults", (7,), 11, {}, [1e-3] * 5),
            adamw_case("decay and a warm-up from 0", (7,), 12,
                       {"betas": [0.9, 0.95], "weight_decay": 0.1}, warm),
            adamw_case("large eps", (5,), 13, {"eps": 1e-2, "weight_decay": 0.5}, [1e-2] * 5),
            adamw_case("first gradient zero", (3,), 14, {"weight_decay": 0.1}, [1e-2] * 5,
                       zero_step=0),
        ],
        "clip": [
            clip_case(1.0, [[3.0, -4.0], [12.0]]),
            clip_case(1.0, [[0.3, -0.4], [0.5, 0.1, 0.0]]),
            clip_case(0.5, [[0.3], [-0.4]]),
            clip_case(1.0, [[0.0, 0.0]]),
        ],
        "schedules": [
            schedule_case(name, warmup, 20, ratio)
            for name, ratio in (("constant", 0.0), ("linear", 0.0), ("cosine", 0.0),
                                ("cosine", 0.1))
            for warmup in (0, 3)
        ] + [schedule_case("cosine", 2, 2), schedule_case("linear", 5, 3)],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent / "optim.json")
    args = parser.parse_args()
    golden = build()
    # One list of numbers a line: readable, and a diff shows what moved.
    entry = lambda e: "  {" + ",\n   ".join(f"{json.dumps(k)}: {json.dumps(v)}"
                                            for k, v in e.items()) + "}"
    parts = [f' "made_with": {json.dumps(golden.pop("made_with"))}']
    parts += [f' "{k}": [\n' + ",\n".join(map(entry, v)) + "\n ]" for k, v in golden.items()]
    args.output.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    for case in golden["muon"]:
        print(f"muon {case['name']}: float32 {case['f32_error']:.1e}, "
              f"bfloat16 Newton-Schulz {case['bf16_newton_schulz_error']:.1e}")


if __name__ == "__main__":
    main()
