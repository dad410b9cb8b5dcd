#!/usr/bin/env python3
"""Makes pretokenizers.json: for each pre-tokenizer that GGUF files name, the ids that Hugging Face's `tokenizers` gives
with the expressions of the tokenizer.json that the name was made for, on the vocabulary of tokenizers/gpt2.

Needs `tokenizers` (0.23.3 made the committed file). Usage: make_pretokenizers.py [OUTPUT]
"""
import json
import sys
from pathlib import Path

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers

from make_tokenizers import GPT4, O200K

HERE = Path(__file__).parent
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2 = GPT4.replace("{1,3}", "")
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
SEED_CODER = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BAILING = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}"
TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}]*{LOWER}]+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}]+{LOWER}]*|"
    r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI = (
    rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}&&[^\p{{Han}}]]*{LOWER}&&[^\p{{Han}}]]+{ENDING}|"
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}&&[^\p{{Han}}]]+{LOWER}&&[^\p{{Han}}]]*{ENDING}|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
DEEPSEEK_LETTERS = (
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\x{1F7D}ᾀ-ᾴᾶ-ᾼ\x{1FBE}"
    r"ῂ-ῄῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
)
ASIAN = "[一-龥ࠀ-一가-퟿]+"
DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
    r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# name: (NFC, expressions)
PRETOKENIZERS = {
    "gpt-2": (False, [GPT2]),
    "olmo": (True, [GPT2]),
    "refact": (False, [r"\p{N}", GPT2]),
    "command-r": (True, [r"\p{N}", GPT2]),
    "dbrx": (False, [GPT4]),
    "qwen2": (True, [QWEN2]),
    "grok-2": (False, [QWEN2]),
    "qwen35": (True, [QWEN35]),
    "seed-coder": (False, [SEED_CODER]),
    "bailingmoe": (False, [BAILING]),
    "gpt-4o": (False, [O200K]),
    "tekken": (False, [TEKKEN]),
    "kimi-k2": (False, [KIMI]),
    "bloom": (False, [BLOOM]),
    "viking": (False, [BLOOM, r"\p{N}"]),
    "deepseek-llm": (False, [r"[\r\n]", DEEPSEEK_LETTERS, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", ASIAN, r"\p{N}+"]),
    "deepseek-coder": (False, [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", ASIAN, r"\p{N}"]),
    "deepseek-v3": (False, [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3]),
}
# The vocabularies of these take whole words without their merges.
IGNORE_MERGES = {"tekken"}

TEXTS = [
    "Hello world, it's 2024-05-31 and don't WE'VE they'Re",
    "  leading and trailing  \n\n\tnext\r\nline   x",
    "1 22 333 4444 55555 3.14 ½ ٣٤٥ １２",
    "naïve café e\u0301 a\u0323\u0302 Ångström ﬁ q\u0323\u0307x",
    "世界你好，世界！カタカナ。한국어 사람 12時",
    "Привет, мир! شكرا 123 नमस्ते",
    "def f(x):\n    return x**2  # sq.\n\n\n",
    "https://a.b/c?d=e&f=%20g <|im_start|> {\"k\": [1, null]}",
    "CamelCaseWORDS XMLHttpRequest iPhone15Pro",
    "👩\u200d👩\u200d👧\u200d👦 🇫🇷 ❤️ ... --- !!! ’s “x”",
    "\u00a0\u2003\u3000a\u0085b\u200b c\u2028d",
    "the " * 12 + "of" * 9 + " " * 9,
]


def main():
    base = (HERE / "tokenizers" / "gpt2.tokenizer.json").read_text()
    rows = {}
    for name, (nfc, expressions) in PRETOKENIZERS.items():
        data = json.loads(base)
        data["model"]["ignore_merges"] = name in IGNORE_MERGES
        data["added_tokens"] = []
        tokenizer = Tokenizer.from_str(json.dumps(data))
        tokenizer.normalizer = normalizers.NFC() if nfc else None
        splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in expressions]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            splits + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        rows[name] = [tokenizer.encode(text).ids for text in TEXTS]
    lines = [f"{json.dumps(name)}: {json.dumps(ids, separators=(',', ':'))}" for name, ids in rows.items()]
    output = Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "pretokenizers.json")
    output.write_text(
        '{"texts": ' + json.dumps(TEXTS, indent=0) + ',\n"ids": {\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
