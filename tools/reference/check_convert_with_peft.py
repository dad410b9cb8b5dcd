"""Does PEFT read what `lorica convert` writes as the adapter that was converted?

    python check_convert_with_peft.py LORICA CASE... [--layouts peft-2d peft-3d] [--stored-logits]

A CASE is a folder with `model/` (Hugging Face) and `adapter/` (PEFT), such as those of
tests/golden/models. Each is converted to every layout named, and from there to peft-3d, whose
tensors must be those of the original where that is in peft-3d; PEFT loads original and conversions
and must give the same logits in float64. With --stored-logits they are compared with the case's
adapter_logits.safetensors instead, for a PEFT that can't load the original (0.18 reads
peft-3d-0.18 and nothing newer). Ends with 1 where anything differs.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import peft
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

# Families whose experts PEFT 0.21 doesn't stack from one tensor an expert: it leaves them out.
NOT_STACKED = {"qwen2_moe", "gpt_oss", "qwen3_5_moe", "qwen3_5_moe_text"}

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def logits(model_path, adapter_path, ids):
    base = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32,
                                                attn_implementation="eager",
                                                experts_implementation="eager")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = peft.PeftModel.from_pretrained(base, adapter_path, autocast_adapter_dtype=False)
    # PEFT only warns of keys it didn't find or didn't want: here they are failures.
    bad = [str(w.message) for w in caught
           if "missing" in str(w.message) or "unexpected" in str(w.message)]
    with torch.no_grad():
        return model.double().eval()(input_ids=ids, use_cache=False).logits, bad


def convert(lorica, source, layout, target, model):
    done = subprocess.run([lorica, "convert", "--adapter", source, "--to", layout, "--output",
                           target, "--model", model], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def same_tensors(a, b):
    return set(a) == set(b) and all(torch.equal(a[k], b[k]) for k in a)


def check(lorica, case, layouts, stored_logits, work):
    problems, notes = [], []
    model, source = case / "model", case / "adapter"
    original = load_file(source / "adapter_model.safetensors")
    config = transformers.AutoConfig.from_pretrained(model)
    if stored_logits:
        records = (case / "batches.jsonl").read_text().splitlines()
        ids = torch.tensor([json.loads(records[2])["input_ids"]])
        want, tolerance = load_file(case / "adapter_logits.safetensors")["logits.2"].double(), 2e-5
    else:
        ids = torch.randint(3, config.vocab_size, (1, 33),
                            generator=torch.Generator().manual_seed(1))
        (want, bad), tolerance = logits(model, source, ids), 1e-12
        problems += [f"original: {b}" for b in bad]
    for layout in layouts:
        target, back = work / layout, work / (layout + "-back")
        problem = (convert(lorica, source, layout, target, model)
                   or convert(lorica, target, "peft-3d", back, model))
        if problem:
            problems.append(problem)
            continue
        if any(".experts.lora_A" in name for name in original):
            if not same_tensors(load_file(back / "adapter_model.safetensors"), original):
                problems.append(f"{layout} and back: tensors differ")
        if layout == "peft-2d" and config.model_type in NOT_STACKED:
            notes.append("peft-2d isn't stacked by PEFT")
            continue
        try:
            got, bad = logits(model, target, ids)
        except Exception as error:  # what PEFT thinks of the file is the result here
            problems.append(f"{layout}: PEFT fails: {str(error)[:200]}")
            continue
        problems += [f"{layout}: {b[:200]}" for b in bad]
        error = float((got - want).abs().max() / want.abs().max())
        notes.append(f"{layout} {error:.1e}")
        if not error < tolerance:
            problems.append(f"{layout}: logits differ by {error:.1e}")
    return problems, notes


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lorica", type=pathlib.Path)
    parser.add_argument("cases", type=pathlib.Path, nargs="+")
    parser.add_argument("--layouts", nargs="+", default=["peft-2d", "peft-3d"])
    parser.add_argument("--stored-logits", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path, help="where conversions stay")
    args = parser.parse_args()
    torch.set_num_threads(1)
    failed = 0
    for case in args.cases:
        with tempfile.TemporaryDirectory() as temporary:
            work = args.keep / case.name if args.keep else pathlib.Path(temporary)
            if args.keep:
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir(parents=True)
            problems, notes = check(args.lorica, case, args.layouts, args.stored_logits, work)
        failed += bool(problems)
        print(f"{case.name}: {'FAILED' if problems else 'ok'}; {', '.join(notes)}", flush=True)
        for problem in problems:
            print("   ", problem)
    print(f"{len(args.cases) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
