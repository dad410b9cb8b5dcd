"""What Hugging Face says about SmolLM2 from a GGUF file: ids, log-probabilities, greedy text.

    python smollm2_reference.py MODEL.gguf --output FULL.json [--fixture tests/golden/smollm2.json]

Ids come from `tokenizers`, assembled from the vocabulary and merges in the file as the pre-
tokenizer named `smollm` wants it (every digit alone, then byte level): transformers' own GGUF
reader ignores that name. Log-probabilities and greedy text come from transformers in float32. The
fixture is the same document with numbers rounded to 1e-6.
"""

import argparse
import hashlib
import json
import os
import pathlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import gguf
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from tokenizers import __version__ as tokenizers_version

torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()

CONTROL = 3  # tokenizer.ggml.token_type of tokens such as <|im_start|>
GREEDY_TOKENS = 48

LONG = """The harbour master kept two books. In the first she wrote what came in and what went \
out: timber, salt, oranges in crates of forty, once a piano that nobody had ordered. In the \
second she wrote what the weather did to all of it. A gale in March of 1987 cost 312 crates; a \
calm of eleven days in the same year cost more, because the fruit did not wait for the wind. \
When the young clerk asked why she bothered, since the insurers kept their own figures, she \
turned the second book around so that he could read it. "Look at the columns," she said. "Theirs \
begin when something is lost. Mine begin the day before."

He read for an hour. The entries were short: pressure falling since noon, swell from the \
south-west, gulls inland. Beside each stood a number between 0 and 10, which he took for the \
force of the wind until he noticed that it was highest on the quietest days. It was, she \
explained, how sure she had been. On the night of the great storm she had written 3. On the \
morning when nothing happened at all she had written 9, and crossed it out, and written 9 again.

Years later, when the port had cranes that drove themselves and a forecast that was right six \
days out of seven, he still kept the second book. The machines told him what would happen and \
how likely it was; they didn't tell him how often they had been wrong about being sure. So he \
copied their figure into one column, waited, and put down in the next one what the sea had done. \
After four winters he drew the line through the points, as she had taught him, and found that 90 \
% meant about three times in four. He sent the sheet to the people who had built the forecast. \
They answered within the week, politely, and asked for the rest of the book."""

TEXTS = {
    "english": "The quick brown fox jumps over the lazy dog, and then it sleeps.",
    "question": "What is the capital of France, and which river runs through it?",
    "chat": "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nName three colours of the rainbow.<|im_end|>\n"
            "<|im_start|>assistant\n",
    "code_python": "def fibonacci(n):\n    if n < 2:\n        return n\n"
                   "    return fibonacci(n - 1) + fibonacci(n - 2)\n",
    "code_cpp": "#include <vector>\n\nint main() {\n\tstd::vector<int> v{1, 2, 3};\n"
                "\tfor (auto& x : v) x *= 2;  // double\n\treturn v[0];\n}\n",
    "digits": "In 1969, 3.14159 and 2,147,483,647 met 0x7fff at 12:30:05 on 2024-02-29.",
    "accents": "Zażółć gęślą jaźń; Größe, naïve café, smørrebrød, İstanbul.",
    "scripts": "日本語のテキスト、中文文本, русский текст, Ελληνικά, עברית, ١٢٣ और हिन्दी।",
    "emoji": "Good morning 👋🏽! A family 👨‍👩‍👧‍👦, a flag 🇫🇷 and a heart ❤️.",
    "whitespace": "  two leading,\t tab ,\n\n\nthree newlines   and trailing   \r\n ",
    "contractions": "I'm sure they'll say it's what we'd've done; DON'T SHOUT 'quoted' words.",
    "one_token": "Hello",
    "long": LONG,
}


def read_tokenizer(path):
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields["tokenizer.ggml." + key].contents()
    if get("model") != "gpt2" or get("pre") != "smollm":
        raise SystemExit(f"{path}: expected the gpt2 tokenizer with pre-tokenizer smollm")
    tokens = get("tokens")
    merges = [tuple(merge.split(" ")) for merge in get("merges")]
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([
        AddedToken(t, normalized=False, special=True)
        for t, kind in zip(tokens, get("token_type")) if kind == CONTROL])
    return tokenizer, get("eos_token_id")


@torch.no_grad()
def log_probabilities(model, ids):
    """Of each token given those before it; None for the first."""
    logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()
    table = torch.log_softmax(logits, dim=-1)
    return [None] + [float(table[t - 1, ids[t]]) for t in range(1, len(ids))]


@torch.no_grad()
def greedy(model, ids, end_token):
    """Most likely continuation, its end token included, and the lead of each choice in nats."""
    cache, feed, chosen, margins = None, torch.tensor([ids]), [], []
    while len(chosen) < GREEDY_TOKENS and end_token not in chosen:
        out = model(input_ids=feed, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        best, second = out.logits[0, -1].double().topk(2).values.tolist()
        chosen.append(int(out.logits[0, -1].argmax()))
        margins.append(best - second)
        feed = torch.tensor([[chosen[-1]]])
    return chosen, margins


def rounded(value):
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, list):
        return [rounded(v) for v in value]
    return {k: rounded(v) for k, v in value.items()} if isinstance(value, dict) else value


def to_text(document):
    """One list a line."""
    texts = []
    for entry in document["texts"]:
        lines = [f"   {json.dumps(k)}: {json.dumps(v)}" for k, v in entry.items()]
        texts.append("  {\n" + ",\n".join(lines) + "\n  }")
    head = {k: v for k, v in document.items() if k != "texts"}
    return json.dumps(head, indent=1)[:-2] + ',\n "texts": [\n' + ",\n".join(texts) + "\n ]\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--fixture", type=pathlib.Path)
    args = parser.parse_args()

    tokenizer, end_token = read_tokenizer(args.model)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model.parent, gguf_file=args.model.name, dtype=torch.float32).eval()
    document = {
        "made_with": {"torch": torch.__version__.split("+")[0],
                      "transformers": transformers.__version__, "tokenizers": tokenizers_version},
        "model": {"file": args.model.name, "bytes": args.model.stat().st_size,
                  "sha256": hashlib.sha256(args.model.read_bytes()).hexdigest()},
        "end_token": end_token,
        "texts": [],
    }
    for name, text in TEXTS.items():
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text, name
        chosen, margins = greedy(model, ids, end_token)
        document["texts"].append({
            "name": name, "text": text, "ids": ids, "logprobs": log_probabilities(model, ids),
            "greedy_ids": chosen, "greedy_margins": margins,
            "greedy_text": tokenizer.decode(chosen, skip_special_tokens=False)})
        print(f"{name}: {len(ids)} tokens, {len(chosen)} greedy, least margin {min(margins):.4f}")
    args.output.write_text(to_text(document))
    if args.fixture:
        args.fixture.write_text(to_text(rounded(document)))


if __name__ == "__main__":
    main()
