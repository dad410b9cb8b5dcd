#!/usr/bin/env bash
# Makes barely trained models, and sees that the command can train and use them.
# usage: examples/check_tiny_model.sh TINY_MODEL LORICA
set -euo pipefail

tiny_model=${1:?usage: examples/check_tiny_model.sh TINY_MODEL LORICA}
lorica=${2:?usage: examples/check_tiny_model.sh TINY_MODEL LORICA}
data=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/data/valid.jsonl
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Tunes what its arguments name, and asks it.
try() {
  local model=$1 run=$2
  shift 2
  "$lorica" inspect "$model" --verify >/dev/null
  "$lorica" sft --model "$model" --data "$data" --output "$run" --max-steps 1 --quiet "$@"
  "$lorica" generate --model "$model" --adapter "$run/adapter" \
    --chat "What is the capital of Italy?" --max-tokens 4 --quiet
}

"$tiny_model" --output "$scratch/dense" --steps 2
try "$scratch/dense" "$scratch/dense_run"

# Long enough that the loss falls from that of an even guess, 6.8.
"$tiny_model" --output "$scratch/moe" --moe --steps 8 | tee "$scratch/log"
awk '/^step 8 of 8:/ { found = 1; exit !($6 < 5.5) } END { if (!found) exit 1 }' "$scratch/log"
try "$scratch/moe" "$scratch/moe_run" --target '*_proj' --target '*.experts' --train-router \
  --router-bias-update 0.001
grep -q '"expert_load"' "$scratch/moe_run/metrics.jsonl"
grep -q 'Tokens of each expert' "$scratch/moe_run/report.html"
echo "check_tiny_model: they train and answer"
