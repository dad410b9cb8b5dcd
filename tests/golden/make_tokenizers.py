#!/usr/bin/env python3
"""Makes tests/golden/tokenizers: small tokenizers of every kind and what Hugging Face's `tokenizers` makes of tricky texts.

Needs `tokenizers` and `sentencepiece` (0.23.3 and 0.2.3 made the committed files). Texts are
seeded; trainers break ties by hash order, so that a second run may give other, equally good vocabularies.
Usage: make_tokenizers.py [NAME...]: those of TOKENIZERS that are named, else everything.
"""

import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).parent / "tokenizers"

GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

WORDS = (
    "the and of to in is it that for was on are with they be at one have this from had hot word but what some we can out "
    "other were all there when up use your how said an each she which do their time if will way about many then them "
    "write would like these her long make thing see him two has look more day could go come did number sound no most "
    "people over know water than call first who may down side been now find any new work part take get place made "
    "where after back little only round man year came show every good me give our under name very through just form "
    "sentence great think say help low line differ turn cause much mean before move right boy old too same tell does "
    "set three want air well also play small end put home read hand port large spell add even land here must big high "
    "такой слово время человек дело жизнь день рука раз год 世界 你好 時間 こんにちは カタカナ 한국어 사람 naïve café déjà Ångström "
    "don't it's I'll we've they're can't 'S 12 2024 3.14 100 7 0.5"
).split()


def corpus(seed, lines):
    r = random.Random(seed)
    for _ in range(lines):
        yield " ".join(r.choice(WORDS) for _ in range(r.randint(3, 14))) + r.choice([".", "!", "?", "\n", ""])


TRICKY = [
    "", " ", "  ", "   ", "\t", "\n", "\r\n", "\n\n\n", " \n ", "\t\t  x", "a", " a", "a ", "  a  b  ",
    "Hello world", " Hello, World!", "the way they were", "don't I'LL they'Re WE'VE 'S 'ſ", "x = (a+b)*c; // d\n\n\treturn",
    "1", "12", "123", "1234567890", "3.14e-10", "0x1F", "٣٤٥ ½ Ⅸ x²", "1 22 333 4444 55555",
    "café café naïve", "Ångström ÅÅ", "ﬁ ﬃ İstanbul ß ẞ", "q̣̇ q̣̇", "한국어 한국", "カ゛ガｶﾞ",
    "世界你好，世界！", "時間はカタカナ。", "Привет, мир", "שָׁלוֹם", "नमस्ते", "👩‍👩‍👧‍👦 🇫🇷 ❤️ 🦙", "zero​width‍joiner\ufeffbom",
    "\xa0\u2003\u3000 spaces\u2028\u2029\x85\x0b\x0c", "\u180e mongolian", "\x00\x01\x7f", "�￿\U0010ffff\ue000",
    "\U00031350\U0002ebf0\U00010d40\U0001faea", "a\rb\r\nc\n\rd", "-----=====_____", "...!!!???", "''''\"\"\"\"````",
    "<|im_start|>user\nhi<|im_end|>\n", "<|im_start|", "x<|im_end|>y <|im_end|> z", "<s>a</s> <unk> [MASK] x[MASK]y",
    "  [MASK]  ", "a [MASK]\n b", "word words sword wordy word", "<tool> <TOOL> <Tool>", "▁a▁▁b ▁", "Ġthe Ċ", "<0x41><0x0A>",
    "http://example.com/a?b=1&c=2#d", "{\"k\": [1, 2.5, null]}", "SELECT * FROM t WHERE a='b';", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "the " * 40, "x" * 300, "12" * 100, " " * 100, "\n" * 50, "ab" * 60 + "\u0301" * 40,
]


def texts(seed):
    r = random.Random(seed)
    result = list(TRICKY)
    alphabet = [
        lambda: r.choice(WORDS),
        lambda: r.choice(WORDS) + " ",
        lambda: chr(r.randrange(0x20, 0x7F)),
        lambda: chr(r.randrange(0xA0, 0x600)),
        # But for two characters that were marks in Unicode 9 and are letters since.
        lambda: chr(r.randrange(0x900, 0xD7FF)).translate({0x1CF2: "x", 0x1CF3: "x"}),
        lambda: chr(r.randrange(0xE000, 0x30000)),
        lambda: r.choice([" ", "  ", "\n", "\t", "\r\n", "\u3000", "\u0301", "\u0323", "\u200d", "'"]),
        lambda: r.choice("0123456789"),
        lambda: r.choice(["<|im_start|>", "<|im_end|>", "[MASK]", "<s>", "</s>", "<unk>", "<tool>", "word"]),
    ]
    for _ in range(60):
        result.append("".join(r.choice(alphabet)() for _ in range(r.randint(1, 24))))
    return result


ADDED = [
    AddedToken("<|im_start|>", normalized=False, special=True),
    AddedToken("<|im_end|>", normalized=False, special=True),
    AddedToken("[MASK]", lstrip=True, rstrip=True, normalized=False, special=True),
    AddedToken("<tool>", normalized=True, special=False),
    AddedToken("word", single_word=True, normalized=False, special=False),
]


def byte_level(pre, size=400, normalizer=None, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(corpus(1, 600), trainer)
    return tokenizer


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert=invert)


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def gpt2():
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False), 500)
    t.add_tokens(ADDED)
    return t


def smollm():
    t = byte_level(
        pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    )
    t.add_tokens(ADDED[:2])
    return t


def llama3():
    t = byte_level(pre_tokenizers.Sequence([split(GPT4), BYTES]))
    data = json.loads(t.to_str())
    data["model"]["ignore_merges"] = True
    # Words that no merges lead to.
    for word in ["Ġnaïve".replace("ï", "Ã¯"), "Hello"]:
        data["model"]["vocab"][word] = len(data["model"]["vocab"])
    t = Tokenizer.from_str(json.dumps(data))
    t.add_special_tokens(["<s>"] + ADDED[:2])
    t.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", t.token_to_id("<s>"))]),
        ]
    )
    return t


def qwen2():
    t = byte_level(pre_tokenizers.Sequence([split(GPT4.replace("{1,3}", "")), BYTES]), normalizer=normalizers.NFC())
    t.add_tokens(ADDED)
    return t


def deepseek():
    t = byte_level(
        pre_tokenizers.Sequence(
            [
                split(r"\p{N}{1,3}"),
                split("[一-龥぀-ゟ゠-ヿ]+"),
                split(
                    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                    r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
                ),
                BYTES,
            ]
        )
    )
    return t


def o200k():
    return byte_level(pre_tokenizers.Sequence([split(O200K), BYTES]), 320)


def splits():
    """Every behaviour, and syntax that only Oniguruma has."""
    return byte_level(
        pre_tokenizers.Sequence(
            [
                split(r"[\s&&[^\n]]+", "merged_with_next"),
                split(r"[[a-c][x-z]]\h{,2}", "merged_with_previous"),
                split(r"(?<![[:alnum:]])\d{2}+", "contiguous"),
                split(r"\bth|[^\S\n]|\R?\p{Han}".replace(r"\R?", ""), "isolated"),
                split(r"[.!?]+", "removed"),
                split(r"\w+|\W+", "removed", invert=True),
                pre_tokenizers.Punctuation("merged_with_previous"),
                pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=False),
            ]
        ),
        330,
    )


def roberta():
    t = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), 320)
    t.add_special_tokens(["<s>", "</s>", AddedToken("[MASK]", lstrip=True)])
    t.post_processor = processors.RobertaProcessing(
        ("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")), trim_offsets=True, add_prefix_space=True
    )
    return t


def train_bpe_with_bytes(pre, normalizer, size):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizer
    if pre is not None:
        tokenizer.pre_tokenizer = pre
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, limit_alphabet=60, show_progress=False)
    tokenizer.train_from_iterator(corpus(2, 600), trainer)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [token for token in data["added_tokens"] if token["id"] < 3]
    return Tokenizer.from_str(json.dumps(data))


def llama2():
    """As converted from sentencepiece, the old way: a normalizer makes the marks."""
    t = train_bpe_with_bytes(
        None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), 700
    )
    t.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    return t


def metaspace(scheme, split_words):
    def make():
        t = train_bpe_with_bytes(
            pre_tokenizers.Metaspace("▁", prepend_scheme=scheme, split=split_words),
            normalizers.Sequence([normalizers.NFKC(), normalizers.Strip()]),
            500,
        )
        t.decoder = decoders.Metaspace("▁", prepend_scheme=scheme)
        return t

    return make


def unigram(byte_fallback):
    def make():
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        specials = ["<unk>", "<s>", "</s>"]
        if byte_fallback:
            specials += [f"<0x{b:02X}>" for b in range(256)]
        trainer = trainers.UnigramTrainer(
            vocab_size=300 + len(specials), special_tokens=specials, unk_token="<unk>", show_progress=False
        )
        tokenizer.train_from_iterator(corpus(3, 600), trainer)
        data = json.loads(tokenizer.to_str())
        data["model"]["byte_fallback"] = byte_fallback
        data["added_tokens"] = [token for token in data["added_tokens"] if token["id"] < 3]
        t = Tokenizer.from_str(json.dumps(data))
        t.decoder = (
            decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]) if byte_fallback else decoders.Metaspace()
        )
        t.post_processor = processors.TemplateProcessing(
            single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 2)]
        )
        return t

    return make


def words():
    """Affixes, unknown tokens one by one, and the normalizers that byte-level tokenizers don't use."""
    t = Tokenizer(models.BPE(unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Replace("x", "ks")]
    )
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=False)])
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["[UNK]"],
        continuing_subword_prefix="##",
        end_of_word_suffix="</w>",
        limit_alphabet=40,
        show_progress=False,
    )
    t.train_from_iterator(corpus(4, 400), trainer)
    t.decoder = decoders.BPEDecoder("</w>")
    t.add_tokens([AddedToken("<tool>", normalized=True), AddedToken("[MASK]", special=True, normalized=False)])
    return t


def bert():
    """BERT's normalizer and pre-tokenizer, and added tokens that are looked for in normalized text."""
    t = Tokenizer(models.BPE(unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.BpeTrainer(vocab_size=260, special_tokens=["[UNK]"], limit_alphabet=70, show_progress=False)
    t.train_from_iterator(corpus(5, 400), trainer)
    t.decoder = decoders.Fuse()
    t.add_tokens([AddedToken("<Tool>"), AddedToken("Word", single_word=True), AddedToken("[MASK]", special=True, normalized=False)])
    return t


def prepended():
    """Added tokens that a normalizer with a prefix gives another form, and ones that take white space on both sides."""
    t = train_bpe_with_bytes(None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), 400)
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.add_tokens([
        AddedToken("<tool>"), AddedToken("word", normalized=False, rstrip=True), AddedToken("  ", normalized=False, lstrip=True, rstrip=True),
        AddedToken("\n\n", normalized=False, rstrip=True), AddedToken("[MASK]", special=True, normalized=False, lstrip=True, rstrip=True),
    ])
    return t


TOKENIZERS = {
    "bert": bert,
    "prepended": prepended,
    "gpt2": gpt2,
    "smollm": smollm,
    "llama3": llama3,
    "qwen2": qwen2,
    "deepseek": deepseek,
    "o200k": o200k,
    "splits": splits,
    "roberta": roberta,
    "llama2": llama2,
    "metaspace_first": metaspace("first", True),
    "metaspace_always": metaspace("always", False),
    "metaspace_never": metaspace("never", True),
    "unigram": unigram(False),
    "unigram_bytes": unigram(True),
    "words": words,
}


# sentencepiece models: its own trainer, its own ids.
SENTENCEPIECE = {
    "sp_bpe": dict(
        model_type="bpe",
        vocab_size=560,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=0.98,
    ),
    "sp_bpe_suffix": dict(
        model_type="bpe",
        vocab_size=330,
        user_defined_symbols=["<tool>", "word", "\u2581\u2581", "ab"],
        normalization_rule_name="identity",
        treat_whitespace_as_suffix=True,
        character_coverage=0.98,
    ),
    "sp_unigram": dict(
        model_type="unigram", vocab_size=240, user_defined_symbols=["<tool>", "word", "wo"], character_coverage=0.98
    ),
    "sp_unigram_bytes": dict(
        model_type="unigram",
        vocab_size=480,
        byte_fallback=True,
        add_dummy_prefix=False,
        normalization_rule_name="identity",
        character_coverage=0.98,
    ),
}

# A few rules of its own instead of the 240 kB of nmt_nfkc: code points in hexadecimal, and what they become.
RULES = "C5\tC4\nFB01\t66 69\n65 301\tE9\n65\t45\n3000\t20\n200D\t\n9\t20 20\n"


def make_sentencepiece(inputs):
    import io
    import tempfile

    import sentencepiece

    for name, options in SENTENCEPIECE.items():
        with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
            rules.write(RULES)
            rules.flush()
            if "normalization_rule_name" not in options:
                options = {**options, "normalization_rule_tsv": rules.name}
            model = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=corpus(11, 800), model_writer=model, minloglevel=2, num_threads=1, **options
            )
        (OUT / f"{name}.model").write_bytes(model.getvalue())
        processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
        rows = [processor.encode(text) for text in inputs]
        body = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        (OUT / f"{name}.expected.json").write_text(f"[\n{body}\n]\n")


def main():
    OUT.mkdir(exist_ok=True)
    inputs = texts(7)
    names = sys.argv[1:]
    if not names:
        make_sentencepiece(inputs)
    (OUT / "texts.json").write_text(json.dumps(inputs, ensure_ascii=True, indent=0) + "\n")
    for name, make in TOKENIZERS.items():
        if names and name not in names:
            continue
        tokenizer = Tokenizer.from_str(make().to_str())
        (OUT / f"{name}.tokenizer.json").write_text(
            json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":")) + "\n"
        )
        plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in inputs]
        full = [tokenizer.encode(text).ids for text in inputs]
        tokenizer.encode_special_tokens = True
        spelled = [tokenizer.encode(text, add_special_tokens=False).ids for text in inputs]
        rows = [
            {
                "ids": a,
                # Only where they differ.
                **({"with_ends": b} if a != b else {}),
                **({"spelled": c} if a != c else {}),
                "decoded": tokenizer.decode(a, skip_special_tokens=False),
            }
            for a, b, c in zip(plain, full, spelled)
        ]
        body = ",\n".join(json.dumps(row, ensure_ascii=True, separators=(",", ":")) for row in rows)
        (OUT / f"{name}.expected.json").write_text(f"[\n{body}\n]\n")


if __name__ == "__main__":
    main()
