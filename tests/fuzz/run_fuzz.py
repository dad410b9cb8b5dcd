#!/usr/bin/env python3
"""Runs one fuzz target from small valid files of its format.

usage: run_fuzz.py FORMAT PROGRAM. An input that crashes, leaks, hangs or takes too much memory is kept in the current
folder as FORMAT-crash-..., and the status is not 0. As a test it always tries the same inputs; to search for others:
LORICA_FUZZ_SECONDS=600 LORICA_FUZZ_SEED=0 run_fuzz.py ... (seed 0: another one each time).
"""

import gzip
import json
import lzma
import os
import struct
import subprocess
import sys
import tempfile


def safetensors(tensors, metadata=None):
    """One file; `tensors` maps a name to (dtype, shape, bytes)."""
    header, data = ({'__metadata__': metadata} if metadata else {}), b''
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return struct.pack('<Q', len(text)) + text + data


def gguf_text(text):
    return struct.pack('<Q', len(text)) + text.encode()


def gguf(values, tensors):
    """One version 3 file; `values` maps a key to (type number, encoded value), `tensors` a name to (shape, type, bytes)."""
    out = b'GGUF' + struct.pack('<IQQ', 3, len(tensors), len(values))
    for key, (kind, encoded) in values.items():
        out += gguf_text(key) + struct.pack('<I', kind) + encoded
    data = b''
    for name, (shape, kind, content) in tensors.items():
        data += b'\0' * (-len(data) % 32)
        out += gguf_text(name) + struct.pack(f'<I{len(shape)}QIQ', len(shape), *shape, kind, len(data))
        data += content
    return out + b'\0' * (-len(out) % 32) + data


def gguf_seeds():
    u32, f32, text, array = 4, 6, 8, 9
    strings = struct.pack('<IQ', text, 3) + gguf_text('a') + gguf_text('b') + gguf_text('ab')
    values = {
        'general.architecture': (text, gguf_text('llama')),
        'general.alignment': (u32, struct.pack('<I', 32)),
        'llama.block_count': (u32, struct.pack('<I', 1)),
        'llama.rope.freq_base': (f32, struct.pack('<f', 10000.0)),
        'tokenizer.ggml.tokens': (array, strings),
        'tokenizer.ggml.token_type': (array, struct.pack('<IQ3i', 5, 3, 1, 1, 1)),
    }
    q4_1 = struct.pack('<HH', 0x3C00, 0) + bytes(range(16))
    # One block of every block type that is read: elements and bytes by number.
    blocks = {2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84), 11: (256, 110),
              12: (256, 144), 13: (256, 176), 14: (256, 210), 20: (32, 18), 23: (256, 136), 39: (32, 17)}
    every = {f'blk.{kind}': ([elements], kind, bytes(i % 256 for i in range(size)))
             for kind, (elements, size) in blocks.items()}
    u16 = 2
    parts = [gguf({'split.no': (u16, struct.pack('<H', number)), 'split.count': (u16, struct.pack('<H', 2)),
                   'split.tensors.count': (5, struct.pack('<i', 2))}, {name: ([2], 0, bytes(8))})
             for number, name in enumerate(('a', 'b'))]
    return [gguf(values, {'token_embd.weight': ([2, 3], 0, bytes(24)), 'blk.0.attn_q.weight': ([32, 1], 3, q4_1)}),
            gguf({}, every), b''.join(parts), gguf({}, {})]


def tokenizer_seeds():
    tokens = ['<|end|>', 'a', 'b', 'c', 'Ġ', 'ab', 'Ġa', 'abc']
    base = {
        'version': '1.0', 'truncation': None, 'padding': None,
        'added_tokens': [{'id': 0, 'content': '<|end|>', 'single_word': False, 'lstrip': False, 'rstrip': False,
                          'normalized': False, 'special': True}],
        'normalizer': {'type': 'NFC'},
        'pre_tokenizer': {'type': 'Sequence', 'pretokenizers': [
            {'type': 'Split', 'pattern': {'Regex': '\\p{L}+|\\s+(?!\\S)| ?[^\\s\\p{L}]+'}, 'behavior': 'Isolated',
             'invert': False},
            {'type': 'Digits', 'individual_digits': True},
            {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': False}]},
        'post_processor': {'type': 'TemplateProcessing', 'single': [{'SpecialToken': {'id': '<|end|>', 'type_id': 0}},
                                                                    {'Sequence': {'id': 'A', 'type_id': 0}}],
                           'pair': [], 'special_tokens': {'<|end|>': {'id': '<|end|>', 'ids': [0],
                                                                      'tokens': ['<|end|>']}}},
        'decoder': {'type': 'ByteLevel'},
        'model': {'type': 'BPE', 'vocab': {token: i for i, token in enumerate(tokens)},
                  'merges': ['a b', 'Ġ a', 'ab c'], 'byte_fallback': False, 'ignore_merges': False},
    }
    pairs = json.loads(json.dumps(base))
    pairs['model']['merges'] = [['a', 'b'], ['Ġ', 'a'], ['ab', 'c']]
    pairs['pre_tokenizer'] = {'type': 'Metaspace', 'replacement': '▁', 'prepend_scheme': 'first', 'split': False}
    pairs['normalizer'] = {'type': 'Replace', 'pattern': {'String': ' '}, 'content': '▁'}
    return [json.dumps(one).encode() for one in (base, pairs)]


def proto(*fields):
    """A protocol buffer of (field number, value): whole numbers, floats, bytes."""
    def varint(n):
        out = b''
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    out = b''
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack('<f', value)
        else:
            out += varint(number << 3) + varint(value)
    return out


def sentencepiece_seeds():
    unknown, control, byte = 2, 3, 6

    def model(kind, pieces, **normalizer):
        fields = [(1, proto((1, text.encode()), (2, score), (3, type_))) for text, score, type_ in pieces]
        fields.append((2, proto((3, kind), (35, int(any(type_ == byte for _, _, type_ in pieces))))))
        fields.append((3, proto((3, normalizer.get('prefix', 1)), (4, 0), (5, 1))))
        return proto(*fields)

    ends = [('<unk>', 0.0, unknown), ('<s>', 0.0, control), ('</s>', 0.0, control)]
    words = [('▁', -3.0, 1), ('a', -2.5, 1), ('b', -2.6, 1), ('ab', -1.0, 1), ('▁ab', -0.5, 1)]
    all_bytes = [(f'<0x{number:02X}>', 0.0, byte) for number in range(256)]
    return [model(1, ends + words), model(2, ends + words), model(2, ends + all_bytes + words, prefix=0)]


JINJA = [
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}",
    "{%- set ns = namespace(found=false) -%}{%- for m in messages[::-1] if not ns.found and m.role == 'user' -%}"
    "{%- set ns.found = true -%}{{ m.content | trim | upper }}{{ loop.index0 }}{%- else -%}none{%- endfor -%}",
    "{% macro line(x, n=2) %}{{ x ~ n }}{% endmacro %}{{ line('a') }}{{ {'a': [1, 2.5, none]} | tojson(indent=2) }}"
    "{{ 'x' if messages is defined and messages | length > 0 else raise_exception('no messages') }}",
    "{{ messages | map(attribute='role') | join(', ') }}{# comment #}{{ 7 // 2 ** 3 % 5 }}{{ 'a.b'.split('.')[-1] }}",
]

def zstd(content):
    """One frame with its size (below 256) and one block as it is."""
    return b'\x28\xb5\x2f\xfd\x20' + bytes([len(content)]) + struct.pack('<I', len(content) << 3 | 1)[:3] + content


CHAT_TEMPLATES = JINJA[:1] + [
    "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}</s>"
    "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
    "{% macro turn(m) %}{% generation %}{{ m.content }};{% endgeneration %}{% endmacro %}{% for m in messages %}"
    "{{ turn(m) if m.role == 'assistant' else m.content }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}",
    "{% for m in messages %}{{ m.role[0] }}:{{ m.content if loop.last else m.content.split('</think>')[-1] }};"
    "{% endfor %}{% if add_generation_prompt %}a:{% endif %}",
]

RECORDS = [
    {'messages': [{'role': 'user', 'content': 'a'}, {'role': 'assistant', 'content': 'b\u00e9\U0001f600'}]},
    {'conversations': [{'from': 'human', 'value': 'a'}, {'from': 'gpt', 'value': 'b'}], 'system': 'c'},
    {'prompt': 'a', 'completion': 'b'},
    {'instruction': 'a', 'input': 'b', 'output': 'c', 'history': [['d', 'e']]},
    {'text': 'a b c', 'weight': 0.5},
    {'question': 'a', 'answer': 'b'},
    {'input_ids': [1, 2, 3], 'labels': [-100, 2, 3], 'attention_mask': [1, 1, 1]},
]

PEFT_CONFIGS = [
    {'peft_type': 'LORA', 'r': 4, 'lora_alpha': 8, 'target_modules': ['q_proj', 'down_proj'], 'use_rslora': True,
     'layers_to_transform': [0, 3], 'layers_pattern': ['layers', 'h'], 'modules_to_save': ['lm_head'],
     'rank_pattern': {r'layers\.\d+\.q_proj': 2}, 'alpha_pattern': {'down_proj': 1.5}, 'bias': 'none'},
    {'peft_type': 'LORA', 'target_modules': r'.*\.(?P<a>q|k)_proj', 'exclude_modules': '.*0.*',
     'modules_to_save': ['embed_tokens'], 'ensure_weight_tying': True},
    {'peft_type': 'LORA', 'target_modules': 'all-linear', 'exclude_modules': ['lm_head'], 'use_dora': False},
]

SEEDS = {
    'safetensors': lambda: [
        safetensors({'a': ('F32', [2, 2], bytes(16)), 'b.weight': ('BF16', [3], bytes(6))}, {'format': 'pt'}),
        safetensors({'empty': ('I64', [0, 4], b''), 'scalar': ('F64', [], bytes(8))}),
        safetensors({'w': ('F8_E4M3', [3, 4], bytes(range(12))), 'w_scale_inv': ('F32', [2, 2], bytes(16)),
                     'v': ('F8_E5M2', [2, 2, 3], bytes(12)), 'v_scale_inv': ('F8_E8M0', [2, 1, 1], bytes(2))}),
        safetensors({})],
    'gguf': gguf_seeds,
    'peft_config': lambda: [json.dumps(one).encode() for one in PEFT_CONFIGS],
    'tokenizer': tokenizer_seeds,
    'sentencepiece': sentencepiece_seeds,
    'jinja': lambda: [text.encode() for text in JINJA],
    'chat_template': lambda: [text.encode() for text in CHAT_TEMPLATES],
    'jsonl': lambda: ([(json.dumps(one) + '\n').encode() * 2 for one in RECORDS] +
                      [b'\xef\xbb\xbf' + json.dumps(RECORDS[:1]).encode()] +
                      [compress((json.dumps(RECORDS[2]) + '\n').encode() * 2)
                       for compress in (lambda text: gzip.compress(text, mtime=0), lzma.compress, zstd)]),
}

RUNS = 50000
FEWER_RUNS = {'jsonl': 15000}  # each writes a file


def main():
    name, program = sys.argv[1:]
    seconds = os.environ.get('LORICA_FUZZ_SECONDS')
    seed = os.environ.get('LORICA_FUZZ_SEED', '1')
    # A test ends after so many inputs, not after a time: a faster machine tries no more of them than a slower one.
    limit = f'-runs={FEWER_RUNS.get(name, RUNS)}' if seconds is None else f'-max_total_time={seconds}'
    with tempfile.TemporaryDirectory() as corpus:
        for number, valid in enumerate(SEEDS[name]()):
            with open(os.path.join(corpus, f'valid-{number}'), 'wb') as file:
                file.write(valid)
        # A small file must not cost seconds or gigabytes, whatever it claims.
        command = [program, limit, f'-seed={seed}', '-timeout=10', '-rss_limit_mb=1024', '-malloc_limit_mb=512',
                   '-max_len=8192', '-print_final_stats=1', f'-artifact_prefix={name}-', corpus]
        # Not handed on as it is: libFuzzer's 77 for a crash means "skipped" to Meson.
        sys.exit(1 if subprocess.run(command, check=False).returncode else 0)


if __name__ == '__main__':
    main()
