"""Does PEFT load an adapter that Lorica wrote, and do the logits agree?

    lorica score --model MODEL --adapter ADAPTER --data DATA --logits LOGITS.safetensors
    python check_adapter_with_peft.py MODEL ADAPTER LOGITS.safetensors DATA [--tolerance 1e-3]

MODEL is a Hugging Face folder or one GGUF file; DATA is JSONL with `input_ids` (or `text`, with
--tokenizer). Runs in float32 (float64 where the logits file is), one record at a time. Prints the
errors and ends with 1 when max |got - want| / max |want| of any record exceeds the tolerance.
"""

import argparse
import json
import os
import pathlib
import sys
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import peft
import torch
import transformers
from safetensors import safe_open
from transformers import AutoModelForCausalLM

transformers.utils.logging.disable_progress_bar()


def load(model_path, adapter_path, dtype):
    where = (dict(pretrained_model_name_or_path=model_path) if model_path.is_dir() else
             dict(pretrained_model_name_or_path=model_path.parent, gguf_file=model_path.name))
    base = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = peft.PeftModel.from_pretrained(base, adapter_path, autocast_adapter_dtype=False)
    # PEFT only warns of keys it didn't find or didn't want: here they are failures.
    bad = [str(w.message) for w in caught
           if "missing" in str(w.message) or "unexpected" in str(w.message)]
    if bad:
        sys.exit("PEFT did not load the adapter completely: " + " ".join(bad))
    return model.to(dtype).eval()


def read_records(path, tokenizer_path):
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8-sig").splitlines()
             if line.strip()]
    if all("input_ids" in record for record in lines):
        return [record["input_ids"] for record in lines]
    if tokenizer_path is None or not all("text" in record for record in lines):
        sys.exit(f"{path}: expected records with input_ids, or with text together with --tokenizer")
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    return [tokenizer.encode(record["text"]).ids for record in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("adapter", type=pathlib.Path)
    parser.add_argument("logits", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--tokenizer", type=pathlib.Path, help="a tokenizer.json, for text records")
    parser.add_argument("--tolerance", type=float, default=1e-3)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    records = read_records(args.data, args.tokenizer)
    worst_absolute = worst_relative = moved = 0.0
    with safe_open(args.logits, "pt") as file, torch.no_grad():
        names = {f"logits.{i}" for i in range(len(records))}
        if not records or set(file.keys()) != names:
            sys.exit(f"{args.logits}: expected logits.0 to logits.{len(records) - 1}, "
                     f"found {sorted(file.keys())[:8]}")
        dtype = torch.float64 if file.get_slice("logits.0").get_dtype() == "F64" else torch.float32
        model = load(args.model, args.adapter, dtype)
        for i, ids in enumerate(records):
            got = file.get_tensor(f"logits.{i}").double()
            want = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()
            with model.disable_adapter():
                base = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()
            if got.shape != want.shape:
                sys.exit(f"record {i}: expected logits of shape {list(want.shape)}, "
                         f"found {list(got.shape)}")
            absolute = float((got - want).abs().max())
            relative = absolute / float(want.abs().max())
            if not absolute < float("inf"):
                sys.exit(f"record {i}: not finite")
            print(f"record {i}: {len(ids)} tokens, max abs {absolute:.3e}, max rel {relative:.3e}")
            worst_absolute = max(worst_absolute, absolute)
            worst_relative = max(worst_relative, relative)
            moved = max(moved, float((want - base).abs().max()))
    good = worst_relative <= args.tolerance
    print(f"{'ok' if good else 'FAILED'}: {len(records)} records, max abs {worst_absolute:.3e}, "
          f"max rel {worst_relative:.3e}, tolerance {args.tolerance:g}; "
          f"the adapter moves logits by up to {moved:.3e}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
