"""Writes mxfp4.json: packed expert weights of gpt-oss and what transformers makes of them.

Run with the packages torch and transformers: python3 make_mxfp4.py > mxfp4.json
"""

import json

import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

torch.manual_seed(11)
experts, rows, groups = 2, 3, 2
blocks = torch.randint(0, 256, (experts, rows, groups, 16), dtype=torch.uint8)
scales = torch.randint(110, 135, (experts, rows, groups), dtype=torch.uint8)
scales[0, 0] = torch.tensor([0, 1])
scales[1, 2] = torch.tensor([251, 2])
# transformers gives [experts, columns, rows]; here as stored, rows first.
values = convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16).transpose(1, 2).contiguous().float()
print(json.dumps({
    'shape': list(values.shape),
    'blocks': blocks.numpy().tobytes().hex(),
    'scales': scales.numpy().tobytes().hex(),
    'f32': values.numpy().astype('<f4').tobytes().hex(),
}, indent=1))
