#!/usr/bin/env python3
"""Adapters of models/<case> trained with their routers in full: losses and norms of 8 steps, and the routers after them.

Writes trained_routers.json and trained_routers.safetensors (keys <case>.<path>). Needs what make_models.py needs.
"""
import json
import pathlib

from make_models import F64, load_adapter, lora_parameters, train, write_json, write_tensors

HERE = pathlib.Path(__file__).parent
PREFIX = "base_model.model."
# A sigmoid with correction bias and groups, a softmax of all, a softmax of the chosen with a bias of its own.
CASES = ("deepseek_v3", "qwen3_moe", "gpt_oss")


def is_router(name):
    return ".mlp.gate." in name or ".mlp.router." in name


def main():
    trajectories, tensors = {}, {}
    for case in CASES:
        folder = HERE / "models" / case
        records = [json.loads(line) for line in (folder / "batches.jsonl").open()]
        model = load_adapter(folder / "model", folder / "adapter", F64)
        routers = {n: p for n, p in model.named_parameters() if is_router(n) and "lora_" not in n}
        assert routers
        for p in routers.values():
            p.requires_grad_(True)
        trained = list(lora_parameters(model).values()) + list(routers.values())
        trajectories[case] = train(model, trained, records, F64, 8, 0.5)
        for name, p in routers.items():
            tensors[f"{case}.{name.removeprefix(PREFIX)}"] = p
    write_json(HERE / "trained_routers.json", trajectories)
    write_tensors(HERE / "trained_routers.safetensors", tensors)


if __name__ == "__main__":
    main()
