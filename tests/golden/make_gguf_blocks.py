"""Writes gguf_blocks.json: encoded blocks of each readable ggml type and what the `gguf` package makes of them, as a
hash of all float32 values and every 37th of them; and float32 values with the bytes that the package encodes them to.

Run with the packages gguf and numpy: python3 make_gguf_blocks.py > gguf_blocks.json
"""

import json

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type

rng = np.random.default_rng(7)

# Where the f16 scales lie in a block.
SCALES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.IQ4_NL: [0], Type.IQ4_XS: [0], Type.MXFP4: [],
}
# Ordinary, negative, zeros, smallest subnormal, subnormal, largest, infinite and NaN halves.
VALUES = (0.0123, -0.37, 0.0, -0.0, 6e-8, -3e-5, 65504.0, np.inf, -np.inf, np.nan)


def blocks_of(kind):
    _, size = GGML_QUANT_SIZES[kind]
    rows = []
    for number, value in enumerate(VALUES):
        row = rng.integers(0, 256, size, dtype=np.uint8)
        for i, at in enumerate(SCALES[kind]):
            row[at:at + 2] = np.array([value * (1 - 0.7 * i)], np.float16).view(np.uint8)
        if kind == Type.MXFP4:
            row[0] = (0, 1, 2, 3, 100, 127, 128, 200, 254, 255)[number]
        rows.append(row)
    return np.stack(rows)


def fnv1a(data):
    """64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f'{value:016x}'


decode = {}
with np.errstate(all='ignore'):
    for kind in SCALES:
        blocks = blocks_of(kind)
        bits = quants.dequantize(blocks, kind).astype('<f4').ravel().view('<u4').copy()
        bits[(bits & 0x7FFFFFFF) > 0x7F800000] = 0x7FC00000  # machines differ in the bits of NaN
        decode[kind.name] = {
            'blocks': blocks.tobytes().hex(),
            'fnv1a': fnv1a(bits.tobytes()),
            'every_37th': bits[::37].tobytes().hex(),
        }

values = rng.standard_normal((8, 32)).astype(np.float32) * np.float32(0.1)
values[1] = 0
values[2] *= np.float32(1e-6)
values[3] = np.arange(32, dtype=np.float32) - 15.5  # quotients near halves
values[4, 0] = np.float32(127)
values[5] = np.round(values[5] * 100) / np.float32(2)
values[6] = -0.0
values[7] *= np.float32(3e4)
encode = {}
for kind in (Type.F32, Type.F16, Type.BF16, Type.Q8_0):
    encode[kind.name] = quants.quantize(values, kind).view(np.uint8).tobytes().hex()
print(json.dumps({'decode': decode, 'encode': {'values': values.astype('<f4').tobytes().hex(), **encode}}, indent=1))
