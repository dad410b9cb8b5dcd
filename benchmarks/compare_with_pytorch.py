"""Lorica's LoRA step of SmolLM2-135M against PyTorch with PEFT, in alternation on the same machine.

    python3 benchmarks/compare_with_pytorch.py --python VENV/bin/python [--build build/release] [--rounds 5]

VENV has torch, transformers and peft. Each round runs one process of each (a warm-up step and a timed one), so both see the
same moods of the machine. Prints every round, the medians, and their ratio; last the figures as one JSON line.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def run(command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out[out.index("{"):])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True)
    parser.add_argument("--build", default=HERE.parent / "build/release", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    shared = ["--steps", "1", "--warmup", "1", "--threads", str(args.threads)]
    ours = [str(args.build / "benchmarks/lora_step"), *shared]
    peer = [args.python, str(HERE / "peer_pytorch.py"), *shared]

    seconds, memory = {"lorica": [], "pytorch": []}, {"lorica": 0, "pytorch": 0}
    for i in range(args.rounds):
        for name, command in (("lorica", ours), ("pytorch", peer)):
            result = run(command)
            seconds[name].append(result["median_seconds"])
            memory[name] = max(memory[name], result["peak_rss_bytes"])
        print(f"round {i + 1}: lorica {seconds['lorica'][-1]:.2f} s, "
              f"pytorch {seconds['pytorch'][-1]:.2f} s", flush=True)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratios = [p / o for o, p in zip(seconds["lorica"], seconds["pytorch"])]
    print(json.dumps({
        "tokens": 2048, "threads": args.threads, "rounds": args.rounds,
        "lorica_tokens_per_second": round(2048 / medians["lorica"], 1),
        "pytorch_tokens_per_second": round(2048 / medians["pytorch"], 1),
        "speedup_of_medians": round(medians["pytorch"] / medians["lorica"], 3),
        "speedup_per_round": [round(r, 3) for r in ratios],
        "lorica_peak_gb": round(memory["lorica"] / 1e9, 2),
        "pytorch_peak_gb": round(memory["pytorch"] / 1e9, 2)}))


if __name__ == "__main__":
    main()
