"""Lorica's LoRA step against PyTorch with PEFT, in alternation on the same machine.

    python3 benchmarks/compare_with_pytorch.py --python VENV/bin/python [--shape smollm2|qwen3-moe]
                                               [--build build/release] [--rounds 5]

VENV has torch, transformers and peft. Each round runs one process of each (a warm-up step and a timed one), so all see the
same moods of the machine. smollm2: rank 16 on all linears. qwen3-moe: rank 8 on attention and experts, beside it Lorica's
step with adapters on attention alone, which shows what adapters on experts cost in time and, by the engine's own count, in
memory. Prints every round; last the medians and their ratios as one JSON line.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ATTENTION = ["--target", "*.self_attn.*_proj"]
SHAPES = {  # of each run's own options
    "smollm2": {"lorica": [], "pytorch": []},
    "qwen3-moe": {"attention only": ["--rank", "8", *ATTENTION],
                  "lorica": ["--rank", "8", *ATTENTION, "--target", "*.experts"],
                  "pytorch": ["--rank", "8", "--experts", "grouped_mm"]}}
TRAINED_BYTES = 16  # master, gradient and two moments of a parameter
LAYERS = 8


def run(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out[out.index("{"):])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--shape", choices=list(SHAPES), default="smollm2")
    parser.add_argument("--build", default=HERE.parent / "build/release", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    common = ["--shape", args.shape, "--steps", "1", "--warmup", "1", "--threads", str(args.threads)]
    programs = {"pytorch": [args.python, str(HERE / "peer_pytorch.py")]}
    ours = [str(args.build / "benchmarks/lora_step")]

    runs = {name: [] for name in SHAPES[args.shape]}
    for i in range(args.rounds):
        for name, options in SHAPES[args.shape].items():
            runs[name].append(run([*programs.get(name, ours), *common, *options]))
        print(f"round {i + 1}: " + ", ".join(f"{name} {results[-1]['median_seconds']:.2f} s"
                                             for name, results in runs.items()), flush=True)
    seconds = {name: statistics.median(r["median_seconds"] for r in results)
               for name, results in runs.items()}
    figures = {"shape": args.shape, "tokens": 2048, "threads": args.threads, "rounds": args.rounds}
    for name in ("lorica", "pytorch"):
        figures[f"{name}_tokens_per_second"] = round(2048 / seconds[name], 1)
        figures[f"{name}_peak_gb"] = round(max(r["peak_rss_bytes"] for r in runs[name]) / 1e9, 2)
    figures["speedup_of_medians"] = round(seconds["pytorch"] / seconds["lorica"], 3)
    figures["speedup_per_round"] = [round(p["median_seconds"] / o["median_seconds"], 3)
                                    for o, p in zip(runs["lorica"], runs["pytorch"])]
    if "attention only" in runs:
        with_experts, without = runs["lorica"][0], runs["attention only"][0]
        trained = with_experts["trained_parameters"] - without["trained_parameters"]
        beyond = with_experts["peak_bytes"] - without["peak_bytes"]
        figures["time_of_attention_only"] = round(seconds["lorica"] / seconds["attention only"], 3)
        figures["peak_mb_beyond_attention_only"] = round(beyond / 1e6, 1)
        figures["of_it_adapters_and_states_mb"] = round(trained * TRAINED_BYTES / 1e6, 1)
        figures["rest_mb_per_layer"] = round((beyond - trained * TRAINED_BYTES) / LAYERS / 1e6, 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
