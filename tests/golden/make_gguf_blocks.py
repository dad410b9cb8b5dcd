"""Writes gguf_blocks.json: encoded blocks of each readable ggml type and the float32 values that the `gguf` package gives.

Run with the packages gguf and numpy: python3 make_gguf_blocks.py > gguf_blocks.json
"""

import json

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

rng = np.random.default_rng(7)


def half_bytes(value):
    return np.array([value], np.float16).view(np.uint8)


def blocks_of(kind):
    _, size = GGML_QUANT_SIZES[kind]
    scales = 2 if kind == GGMLQuantizationType.Q4_1 else 1
    rows = []
    # Ordinary, negative, zero, smallest subnormal and largest half as scales.
    for scale in (0.0123, -0.37, 0.0, 6e-8, 65504.0):
        row = rng.integers(0, 256, size, dtype=np.uint8)
        for i in range(scales):
            row[2 * i : 2 * i + 2] = half_bytes(scale * (1 - 0.7 * i))
        rows.append(row)
    return np.stack(rows)


decode = {}
for kind in (GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q4_1, GGMLQuantizationType.Q8_0):
    blocks = blocks_of(kind)
    values = quants.dequantize(blocks, kind)
    decode[kind.name] = {"blocks": blocks.tobytes().hex(), "f32": values.astype("<f4").tobytes().hex()}

values = rng.standard_normal((6, 32)).astype(np.float32) * np.float32(0.1)
values[1] = 0
values[2] *= np.float32(1e-6)
values[3] = np.arange(32, dtype=np.float32) - 15.5  # quotients near halves
values[4, 0] = np.float32(127)
values[5] = np.round(values[5] * 100) / np.float32(2)
encoded = quants.quantize(values, GGMLQuantizationType.Q8_0)
print(json.dumps({
    "decode": decode,
    "encode": {"Q8_0": {"f32": values.astype("<f4").tobytes().hex(), "blocks": encoded.tobytes().hex()}},
}, indent=1))
