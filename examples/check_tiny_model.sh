#!/usr/bin/env bash
# Makes a barely trained model, and sees that the command can train and use it.
# usage: examples/check_tiny_model.sh TINY_MODEL LORICA
set -euo pipefail

tiny_model=${1:?usage: examples/check_tiny_model.sh TINY_MODEL LORICA}
lorica=${2:?usage: examples/check_tiny_model.sh TINY_MODEL LORICA}
data=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/data/valid.jsonl
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$tiny_model" --output "$scratch/model" --steps 2
"$lorica" inspect "$scratch/model" --verify >/dev/null
"$lorica" sft --model "$scratch/model" --data "$data" --output "$scratch/run" --max-steps 1 --quiet
"$lorica" generate --model "$scratch/model" --adapter "$scratch/run/adapter" \
  --chat "What is the capital of Italy?" --max-tokens 4 --quiet
echo "check_tiny_model: it trains and answers"
