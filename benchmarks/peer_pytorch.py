"""The same LoRA step as Lorica's benchmark, in PyTorch with PEFT as they come.

    python peer_pytorch.py [--shape smollm2|qwen3-moe] [--experts IMPLEMENTATION] [--model MODEL.gguf]
                           [--rank R] [--steps N --warmup M]

4 sequences of 512 tokens, none masked, float32, sdpa attention, alpha 32, AdamW, default allocator.
smollm2: SmolLM2-135M, rank 16 on all seven linears of every layer. qwen3-moe: the small mixture of
lora_step.cc, on attention and, through target_parameters, on the experts, with transformers' own
implementation or one named (grouped_mm, batched_mm). A step is forward, backward, optimizer and the
clearing of gradients. Prints one JSON document. Weights don't change the time: without --model they
are random.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import time

os.environ.pop("OPENBLAS_CORETYPE", None)  # would hold a BLAS to older kernels than the CPU has
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import peft
import torch
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3MoeConfig

transformers.utils.logging.disable_progress_bar()

SMOLLM2_135M = dict(
    vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
    num_attention_heads=9, num_key_value_heads=3, rms_norm_eps=1e-5, max_position_embeddings=8192,
    rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, tie_word_embeddings=True)
QWEN3_MOE = dict(
    vocab_size=4096, hidden_size=512, intermediate_size=1024, num_hidden_layers=8, head_dim=64,
    num_attention_heads=8, num_key_value_heads=2, rms_norm_eps=1e-6, num_experts=32,
    num_experts_per_tok=4, moe_intermediate_size=256, norm_topk_prob=True,
    max_position_embeddings=8192, rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
    tie_word_embeddings=True)
ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
TARGETS = {
    "smollm2": dict(target_modules=[*ATTENTION, "gate_proj", "up_proj", "down_proj"]),
    "qwen3-moe": dict(target_modules=ATTENTION,
                      target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])}


def load(path, shape, experts):
    config = LlamaConfig(**SMOLLM2_135M) if shape == "smollm2" else Qwen3MoeConfig(**QWEN3_MOE)
    if path is None:
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32,
                                                 attn_implementation="sdpa")
        if experts:
            model.set_experts_implementation(experts)
        return model
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name,
                                                dtype=torch.float32, attn_implementation="sdpa")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=list(TARGETS), default="smollm2")
    parser.add_argument("--experts", help="transformers' implementation of experts")
    parser.add_argument("--model", type=pathlib.Path, help="a GGUF file; default: random weights")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rank", type=int, default=16)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    lora = peft.LoraConfig(task_type="CAUSAL_LM", r=args.rank, lora_alpha=32, lora_dropout=0.0,
                           **TARGETS[args.shape])
    model = peft.get_peft_model(load(args.model, args.shape, args.experts), lora).train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4)
    ids = torch.randint(3, model.config.vocab_size, (args.batch, args.length))

    seconds, losses = [], []
    for _ in range(args.warmup + args.steps):
        start = time.perf_counter()
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - start)
        losses.append(loss.item())
    timed = seconds[args.warmup:]
    median = statistics.median(timed)
    print(json.dumps({
        "peer": "pytorch+peft", "torch": torch.__version__,
        "transformers": transformers.__version__, "peft": peft.__version__,
        "threads": torch.get_num_threads(), "batch": args.batch, "length": args.length,
        "rank": args.rank, "trained_parameters": sum(map(torch.numel, trained)),
        "step_seconds": [round(s, 4) for s in timed], "median_seconds": round(median, 4),
        "tokens_per_second": round(args.batch * args.length / median, 1),
        "losses": losses,
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}, indent=1))


if __name__ == "__main__":
    main()
