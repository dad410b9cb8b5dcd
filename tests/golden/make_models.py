"""Makes the tiny models under models/ with everything a reference system says about them.

    python make_models.py [CASE...] [--output DIR]

Arithmetic is true float64 (true_float64.py); tensors are stored as float32, numbers in JSON as
float64. README.md describes the files. Seeded: a second run gives the same bytes.
"""

import argparse
import copy
import json
import math
import os
import pathlib
import shutil
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")

import peft
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from choice_margins import ChoiceMargins
from model_cases import cases
from true_float64 import real_precision, recompute_inverse_frequencies

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

F32, F64 = torch.float32, torch.float64
BATCH = [0, 1, 2, 3]
ADAMW = {"lr": 1e-2, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}


# ---------------------------------------------------------------------------- inputs


def make_records(seed, vocab):
    """Six records; label[t] belongs to input_ids[t] (unshifted), -100 doesn't count."""
    g = torch.Generator().manual_seed(seed)
    records = []
    for length, prefix in [(3, 1), (8, 0), (11, 4), (21, 7), (2, 0), (41, 12)]:
        ids = torch.randint(3, vocab, (length,), generator=g).tolist()
        labels = [-100] * prefix + ids[prefix:]
        if length > 10:  # holes inside and at the end, and a label that isn't the input token
            labels[prefix + 2] = -100
            labels[-1] = -100
            labels[prefix + 1] = (labels[prefix + 1] + 1) % vocab
        records.append({"input_ids": ids, "labels": labels})
    return records


def fill_weights(model, seed):
    """Weights that make every part matter: no near-zero biases, norms away from 1, sharp heads."""
    g = torch.Generator().manual_seed(seed)
    tensors = dict(model.named_parameters())
    tensors.update((n, b) for n, b in model.named_buffers() if "e_score_correction_bias" in n)
    for name, p in sorted(tensors.items()):
        x = torch.randn(p.shape, generator=g, dtype=F32)
        if name.endswith("norm.weight"):  # some multiply by 1 + weight
            x = 0.2 * x + (0 if float(p.data.abs().max()) == 0 else 1)
        elif name.endswith(("A_log", "dt_bias", "sinks")):
            x = 0.5 * x
        elif name.endswith("bias"):
            x = 0.25 * x
        elif "embed_tokens" in name:
            x = x * (2.0 / math.sqrt(p.shape[1]) if model.config.tie_word_embeddings else 1.0)
        elif "lm_head" in name:
            x = x * 2.0 / math.sqrt(p.shape[1])
        elif p.dim() == 3:  # experts [E, out, in], of gpt_oss [E, in, out]; filters [C, 1, K]
            fan_in = p.shape[1 if model.config.model_type == "gpt_oss" else 2]
            x = x * 1.3 / math.sqrt(fan_in)
        else:  # routers choose clearly
            x = x * (2.0 if "gate.weight" in name or "router" in name else 1.3)
            x = x / math.sqrt(p.shape[1])
        p.data.copy_(x)


def fill_adapter(peft_model, seed):
    """Neither factor is zero, so that every gradient is real."""
    g = torch.Generator().manual_seed(seed)
    for name, p in sorted(lora_parameters(peft_model).items()):
        x = torch.randn(p.shape, generator=g, dtype=F32)
        is_a = ".lora_A." in name or "lora_embedding_A" in name
        p.data.copy_(x * (0.7 / math.sqrt(p.shape[1]) if is_a else 0.12))
        if "lora_embedding" in name:  # A is looked up by token, not summed over
            p.data.copy_(x * 0.3)


# ---------------------------------------------------------------------------- reference runs


def load_base(path, dtype):
    model = AutoModelForCausalLM.from_pretrained(path, dtype=F32, attn_implementation="eager",
                                                 experts_implementation="eager")
    model.config.use_cache = False
    model.eval().requires_grad_(False)
    if dtype is F64:
        model.double()
        recompute_inverse_frequencies(model)
    return model


def load_adapter(model_dir, adapter_dir, dtype):
    model = PeftModel.from_pretrained(load_base(model_dir, dtype), adapter_dir, is_trainable=True,
                                      autocast_adapter_dtype=False)
    return (model.double() if dtype is F64 else model).eval()


def lora_parameters(model):
    return {n: p for n, p in model.named_parameters() if "lora_" in n}


def file_key(name):
    """Parameter name in PEFT -> key in adapter_model.safetensors."""
    return name.replace(".default", "")


def logits_of(model, ids):
    return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0]


def loss_sum(logits, labels):
    target = torch.tensor(labels[1:])
    kept = target != -100
    log_p = torch.log_softmax(logits[:-1], dim=-1)
    return -log_p[kept, target[kept]].sum(), int(kept.sum())


def evaluate(model, records, dtype):
    logits, losses = {}, []
    with torch.no_grad(), real_precision(dtype):
        for i, record in enumerate(records):
            out = logits_of(model, record["input_ids"])
            total, count = loss_sum(out, record["labels"])
            logits[f"logits.{i}"] = out
            losses.append({"mean_loss": float(total) / count, "num_targets": count})
    return logits, losses


def batch_loss(model, records, dtype, backward=True):
    """Token-weighted mean over the batch, one record at a time; gradients add up."""
    batch = [records[i] for i in BATCH]
    count = sum(1 for r in batch for label in r["labels"][1:] if label != -100)
    value = 0.0
    with real_precision(dtype):
        for record in batch:
            loss = loss_sum(logits_of(model, record["input_ids"]), record["labels"])[0] / count
            if backward:
                loss.backward()
            value += float(loss)
    return value


def norm_of_gradients(parameters):
    return math.sqrt(sum(float(p.grad.double().square().sum()) for p in parameters))


def train(model, parameters, records, dtype, steps, clip):
    """-> the entry for trajectory.json; the parameters are changed in place."""
    optimizer = torch.optim.AdamW(parameters, foreach=False, **ADAMW)
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, 2, steps) if clip else None
    rows = []
    for step in range(steps):
        optimizer.zero_grad(set_to_none=True)
        loss = batch_loss(model, records, dtype)
        rows.append({"step": step, "loss": loss, "grad_norm": norm_of_gradients(parameters),
                     "lr": optimizer.param_groups[0]["lr"]})
        if clip:
            torch.nn.utils.clip_grad_norm_(parameters, clip, foreach=False)
        optimizer.step()
        if schedule:
            schedule.step()
    with torch.no_grad():
        last = batch_loss(model, records, dtype, backward=False)
    return {"optimizer": {"name": "AdamW", **ADAMW}, "clip_max_norm": clip,
            "schedule": {"name": "cosine_with_warmup", "num_warmup_steps": 2,
                         "num_training_steps": steps} if clip else "constant",
            "records": BATCH, "steps": rows, "loss_after_last_step": last}


# ---------------------------------------------------------------------------- files


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def write_tensors(path, tensors):
    save_file({k: t.detach().to(F32).contiguous() for k, t in tensors.items()}, path,
              metadata={"format": "pt"})


def write_adapter(model, path, save_embedding_layers=False):
    """An adapter folder as PEFT writes it, less what depends on where and when it was written."""
    model.save_pretrained(path, save_embedding_layers=save_embedding_layers)
    (path / "README.md").unlink(missing_ok=True)
    config = json.loads((path / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "model"
    for key in ("target_modules", "exclude_modules", "target_parameters"):
        if isinstance(config.get(key), list):
            config[key].sort()
    write_json(path / "adapter_config.json", config)


def write_adapter_like(model, source, path):
    """The adapter's values now, rounded to float32, beside `source`'s configuration."""
    path.mkdir()
    shutil.copy(source / "adapter_config.json", path)
    tensors = {file_key(n): p for n, p in lora_parameters(model).items()}
    write_tensors(path / "adapter_model.safetensors", tensors)
    assert set(tensors) == set(load_file(source / "adapter_model.safetensors"))


def write_legacy_config(model_dir, path):
    """The same model in the spelling of transformers 4 and of most folders people have."""
    config = json.loads((model_dir / "config.json").read_text())
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["rope_scaling"] = None
    config["torch_dtype"] = config.pop("dtype")
    config["transformers_version"] = "4.46.0"
    del config["head_dim"]  # it is hidden_size / num_attention_heads here, and was left out then
    write_json(path, dict(sorted(config.items())))


def worst(a, b):
    """max |a - b| / max |b|, the worst over all tensors."""
    return max(float((a[k].double() - b[k].double()).abs().max() / b[k].double().abs().max())
               for k in b)


# ---------------------------------------------------------------------------- cases


def make_model(case, out):
    torch.manual_seed(case["seed"])
    model = AutoModelForCausalLM.from_config(case["config"], dtype=F32)
    model.config.bos_token_id, model.config.eos_token_id = 1, 2
    fill_weights(model, case["seed"])
    model.save_pretrained(out / "model", max_shard_size=case.get("shard_bytes", 10**9))
    (out / "model/generation_config.json").unlink(missing_ok=True)


def make_adapter(case, out, name, options, seed):
    base = load_base(out / "model", F32)
    config = LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **copy.deepcopy(options))
    model = get_peft_model(base, config, autocast_adapter_dtype=False)
    fill_adapter(model, seed)
    write_adapter(model, out / name)
    if case.get("with_base_embeddings"):
        write_adapter(model, out / f"{name}_with_base_embeddings", save_embedding_layers=True)


def write_evaluation(model, records, out, prefix):
    logits, losses = evaluate(model, records, F64)
    write_tensors(out / f"{prefix}logits.safetensors", logits)
    write_json(out / f"{prefix}loss.json", losses)
    return logits, losses


def module_table(model):
    """Path -> rank and scaling, as PEFT resolved the patterns."""
    table = {}
    for name, module in model.named_modules():
        if isinstance(module, LoraLayer):
            table[name.removeprefix("base_model.model.")] = {
                "rank": module.r["default"], "scaling": module.scaling["default"]}
    return table


def check_gradient(model, records, gradients):
    """Central differences along a random direction against the written gradients."""
    g = torch.Generator().manual_seed(5)
    step, slope = 1e-6, 0.0
    moves = {}
    for name, p in model.named_parameters():
        if name in gradients:
            moves[p] = torch.randn(p.shape, generator=g, dtype=F64)
            slope += float((moves[p] * gradients[name]).sum())
    values = []
    with torch.no_grad():
        for sign in (1, -2):
            for p, move in moves.items():
                p += sign * step * move
            values.append(batch_loss(model, records, F64, backward=False))
        for p, move in moves.items():
            p += step * move
    numeric = (values[0] - values[1]) / (2 * step)
    error = abs(numeric - slope) / abs(slope)
    assert error < 1e-6, error
    return error


def make_lora_case(case, out, records, meta):
    model_dir, adapter_dir = out / "model", out / "adapter"
    make_adapter(case, out, "adapter", case["adapter"], case["seed"] + 100)
    model = load_adapter(model_dir, adapter_dir, F64)
    meta["adapter_modules"] = module_table(model)
    logits, _ = write_evaluation(model, records, out, "adapter_")

    loss = batch_loss(model, records, F64)
    gradients = {n: p.grad.clone() for n, p in lora_parameters(model).items()}
    on_disk = {file_key(n): t for n, t in gradients.items()}
    write_tensors(out / "grads.safetensors", on_disk)
    write_json(out / "grads.json", {
        "records": BATCH, "loss": loss,
        "grad_norm": math.sqrt(sum(float(t.square().sum()) for t in gradients.values()))})
    meta["finite_difference_error"] = check_gradient(model, records, gradients)

    plain = load_adapter(model_dir, adapter_dir, F32)
    plain_logits, _ = evaluate(plain, records, F32)
    batch_loss(plain, records, F32)
    meta["f32_error"]["adapter_logits"] = worst(plain_logits, logits)
    meta["f32_error"]["grads"] = worst(
        {file_key(n): p.grad for n, p in lora_parameters(plain).items()}, on_disk)

    trajectory = {}
    for name, clip in (("plain", None), ("clip", 0.5)):
        if name not in case.get("runs", ("plain", "clip")):
            continue
        model = load_adapter(model_dir, adapter_dir, F64)
        trained = list(lora_parameters(model).values())
        trajectory[name] = train(model, trained, records, F64, 8, clip)
        suffix = "_clip" if clip else ""
        write_adapter_like(model, adapter_dir, out / f"adapter_final{suffix}")
    write_json(out / "trajectory.json", trajectory)

    if case.get("merged"):
        merged = load_adapter(model_dir, adapter_dir, F64).merge_and_unload()
        meta["merge_error"] = worst(evaluate(merged, records, F64)[0], logits)
        assert meta["merge_error"] < 1e-12
        write_tensors(out / "merged.safetensors", merged.state_dict())
    if case.get("with_base_embeddings"):
        again = load_adapter(model_dir, out / "adapter_with_base_embeddings", F64)
        assert worst(evaluate(again, records, F64)[0], logits) == 0.0
    if "regex_adapter" in case:
        make_adapter(case, out, "adapter_regex", case["regex_adapter"], case["seed"] + 200)
        model = load_adapter(model_dir, out / "adapter_regex", F64)
        meta["adapter_regex_modules"] = module_table(model)
        write_evaluation(model, records, out, "adapter_regex_")


def make_full_case(case, out, records, meta):
    trajectory = {}
    for name, clip in (("plain", None), ("clip", 0.5)):
        model = load_base(out / "model", F64).requires_grad_(True)
        if not clip:
            loss = batch_loss(model, records, F64)
            gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
            write_tensors(out / "full_grads.safetensors", gradients)
            write_json(out / "full_grads.json", {
                "records": BATCH, "loss": loss,
                "grad_norm": norm_of_gradients(list(model.parameters()))})
            meta["finite_difference_error"] = check_gradient(model, records, gradients)
            model = load_base(out / "model", F64).requires_grad_(True)
        trajectory[name] = train(model, list(model.parameters()), records, F64, 4, clip)
        suffix = "_clip" if clip else ""
        write_tensors(out / f"full_final{suffix}.safetensors", dict(model.named_parameters()))
    write_json(out / "full_trajectory.json", trajectory)


def make_case(name, case, root):
    if not case.get("sparse"):
        return make_files(name, case, root / name, {})
    meta = {}
    with ChoiceMargins() as margins:
        make_files(name, case, root / name, meta)
    meta["choice_margin"] = margins.smallest
    write_json(root / name / "meta.json", meta)
    print(f"{name}: choices are {margins.smallest:.1e} clear")
    assert margins.smallest > 3e-5


def make_files(name, case, out, meta):
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    make_model(case, out)
    records = make_records(case["seed"], case["config"].vocab_size)
    (out / "batches.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    meta.update({"about": case["about"], "seed": case["seed"],
                 "torch": torch.__version__.split("+")[0],
                 "transformers": transformers.__version__, "peft": peft.__version__,
                 "f32_error": {}})

    base = load_base(out / "model", F64)
    logits, _ = write_evaluation(base, records, out, "")
    with torch.no_grad(), real_precision():
        hidden = base(input_ids=torch.tensor([records[1]["input_ids"]]), use_cache=False,
                      output_hidden_states=True).hidden_states
    write_tensors(out / "debug_hidden.safetensors",
                  {f"hidden.1.{k}": h[0] for k, h in enumerate(hidden)})
    meta["f32_error"]["logits"] = worst(evaluate(load_base(out / "model", F32), records, F32)[0],
                                        logits)
    if case.get("legacy_config"):
        write_legacy_config(out / "model", out / "config.legacy.json")
        legacy = out / "legacy"
        shutil.copytree(out / "model", legacy)
        shutil.copy(out / "config.legacy.json", legacy / "config.json")
        assert worst(evaluate(load_base(legacy, F64), records, F64)[0], logits) == 0.0
        shutil.rmtree(legacy)

    if case.get("full"):
        make_full_case(case, out, records, meta)
    elif "adapter" in case:
        make_lora_case(case, out, records, meta)
    write_json(out / "meta.json", meta)
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    print(f"{name}: {size / 1e3:.0f} kB, float32 errors {meta['f32_error']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case", nargs="*")
    parser.add_argument("--output", type=pathlib.Path,
                        default=pathlib.Path(__file__).parent / "models")
    args = parser.parse_args()
    chosen = cases()
    for name in args.case or chosen:
        make_case(name, chosen[name], args.output)


if __name__ == "__main__":
    main()
