"""Makes peft_variants/: adapters of models/ whose configurations use the less common keys, and their logits.

    python make_peft_variants.py [--output DIR]

Also writes peft_keys.json: every field of peft.LoraConfig with its default. Arithmetic as in make_models.py.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil

import make_models as base  # sets up transformers first
import peft
import torch
from peft import LoraConfig, get_peft_model

HERE = pathlib.Path(__file__).parent
UNTIED, TIED, QWEN = "llama_gqa", "llama_mqa_bias_tied", "qwen2_patterns"
RECORD = 2  # of batches.jsonl; 11 tokens

# Name -> model, arguments of LoraConfig.
VARIANTS = {
    "save_both": (UNTIED, dict(target_modules=["q_proj", "down_proj"], modules_to_save=["embed_tokens", "lm_head"])),
    "save_head_of_tied": (TIED, dict(target_modules=["v_proj"], modules_to_save=["lm_head"])),
    "save_embedding_of_tied": (TIED, dict(target_modules=["v_proj"], modules_to_save=["embed_tokens"])),
    "save_tied_together": (TIED, dict(target_modules=["v_proj"], modules_to_save=["embed_tokens"],
                                      ensure_weight_tying=True)),
    "one_layer": (UNTIED, dict(target_modules=["self_attn.v_proj", "up_proj"], layers_to_transform=1)),
    # An exact path isn't asked for its layer.
    "layers": (QWEN, dict(target_modules=["k_proj", "model.layers.1.self_attn.o_proj"], layers_to_transform=[0, 2],
                          layers_pattern=["blocks", "layers"])),
    "regex": (QWEN, dict(target_modules=r".*\.(?P<block>self_attn|mlp)\.(q_proj|up_proj)",
                         exclude_modules=r".*layers\.(?!1\.)\d+\.mlp.*",
                         rank_pattern={r"1\.self_attn\.q_proj": 3, "q_proj": 2},
                         alpha_pattern={r"layers.\d.self_attn.q_proj": 5})),
    "all_linear": (UNTIED, dict(target_modules="all-linear", exclude_modules=["o_proj"])),
}


def make(name, model_name, options, out):
    model_dir = HERE / "models" / model_name
    config = LoraConfig(task_type="CAUSAL_LM", r=4, lora_alpha=6, lora_dropout=0.0, **options)
    model = get_peft_model(base.load_base(model_dir / "model", torch.float32), config, autocast_adapter_dtype=False)
    base.fill_adapter(model, 7)
    g = torch.Generator().manual_seed(8)
    for key, p in sorted(model.named_parameters()):
        if "modules_to_save.default" in key:
            p.data.add_(0.2 * torch.randn(p.shape, generator=g) * p.data.std())
    base.write_adapter(model, out / name)
    model = base.load_adapter(model_dir / "model", out / name, torch.float64)
    record = [json.loads(line) for line in (model_dir / "batches.jsonl").read_text().splitlines()][RECORD]
    with torch.no_grad(), base.real_precision(torch.float64):
        logits = base.logits_of(model, record["input_ids"])
    base.write_tensors(out / name / "logits.safetensors", {"logits": logits})
    base.write_json(out / name / "meta.json", {"model": model_name, "input_ids": record["input_ids"],
                                               "modules": base.module_table(model)})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "peft_variants")
    out = parser.parse_args().output
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    for name, (model_name, options) in VARIANTS.items():
        make(name, model_name, options, out)
    defaults = LoraConfig()
    keys = {}
    for field in dataclasses.fields(LoraConfig):
        if field.name != "runtime_config":  # never written
            value = getattr(defaults, field.name)
            keys[field.name] = getattr(value, "value", value)
    base.write_json(out / "keys.json", {"peft": peft.__version__, "defaults": keys})


if __name__ == "__main__":
    main()
