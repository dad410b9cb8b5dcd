"""Writes gguf_models.json: the tiny models with experts of models/ as GGUF files, as llama.cpp names and lays out their
tensors; of each file the metadata, and of each tensor its shape and a hash of its bytes, which are float32.

Run with the packages gguf, numpy and safetensors: python3 make_gguf_models.py [--files DIR] > gguf_models.json
--files keeps the files themselves.
"""

import argparse
import json
import pathlib
import re
import sys
import tempfile

import gguf
import numpy as np
from gguf.constants import GGUFValueType
from safetensors.numpy import load_file

HERE = pathlib.Path(__file__).parent
SOFTMAX, SIGMOID = 1, 2

TOP = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
       "lm_head.weight": "output.weight"}
LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    **{f"mlp.{shared}.{ours}_proj": f"ffn_{ours}_shexp"
       for shared in ("shared_expert", "shared_experts") for ours in ("gate", "up", "down")},
}
SINGLE = {"gate_proj": "gate", "up_proj": "up", "down_proj": "down", "w1": "gate", "w3": "up", "w2": "down"}


def swap_rotation(rows, heads):
    """Rows j and j + half of a head become rows 2j and 2j + 1: `llama` rotates neighbours."""
    head = rows.shape[0] // heads
    order = [h * head + i % 2 * (head // 2) + i // 2 for h in range(heads) for i in range(head)]
    return rows[order]


class Case:
    def __init__(self, model, arch, split_kv_b=True, mtp=0):
        self.arch, self.split_kv_b, self.mtp = arch, split_kv_b, mtp
        folder = HERE / "models" / model / "model"
        self.config = json.loads((folder / "config.json").read_text())
        self.weights = load_file(folder / "model.safetensors")

    def tensors(self):
        out, experts = {}, {}
        for name, value in sorted(self.weights.items()):
            name = name.replace("block_sparse_moe", "mlp")
            if name in TOP:
                out[TOP[name]] = value
                continue
            block, rest = re.fullmatch(r"model\.layers\.(\d+)\.(.*)", name).groups()
            block = f"blk.{block}."
            single = re.fullmatch(r"mlp\.experts\.(\d+)\.(\w+)\.weight", rest)
            if single:
                kind = SINGLE[single[2]]
                experts.setdefault(f"{block}ffn_{kind}_exps.weight", {})[int(single[1])] = value
            elif rest.startswith("mlp.experts."):
                out.update(self.stacked(block, rest, value))
            elif rest.endswith("e_score_correction_bias"):
                out[block + "exp_probs_b.bias"] = value
            elif rest == "self_attn.sinks":
                out[block + "attn_sinks.weight"] = value
            else:
                out.update(self.plain(block, *rest.rsplit(".", 1), value))
        for name, one in experts.items():
            out[name] = np.stack([one[i] for i in range(len(one))])
        for i in range(self.mtp):
            block = f"blk.{self.config['num_hidden_layers'] + i}."
            size = self.config["hidden_size"]
            out[block + "nextn.eh_proj.weight"] = np.zeros((size, 2 * size), np.float32)
            out[block + "attn_norm.weight"] = np.ones(size, np.float32)
        return out

    def stacked(self, block, rest, value):
        """gpt-oss: [E, in, out], gate and up in turn."""
        bias = rest.endswith("_bias")
        if not bias:
            value = value.transpose(0, 2, 1)
        ending = ".bias" if bias else ".weight"
        if "down_proj" in rest:
            return {block + "ffn_down_exps" + ending: value}
        return {block + "ffn_gate_exps" + ending: value[:, 0::2], block + "ffn_up_exps" + ending: value[:, 1::2]}

    def plain(self, block, module, parameter, value):
        c = self.config
        if module == "self_attn.kv_b_proj" and self.split_kv_b:
            heads, nope = c["num_attention_heads"], c["qk_nope_head_dim"]
            both = value.reshape(heads, nope + c["v_head_dim"], -1)
            return {block + "attn_k_b.weight": both[:, :nope].transpose(0, 2, 1),
                    block + "attn_v_b.weight": both[:, nope:]}
        if self.arch == "llama" and module.endswith(("q_proj", "k_proj")):
            value = swap_rotation(value, c["num_key_value_heads" if "k_proj" in module else "num_attention_heads"])
        if module == "mlp.shared_expert_gate":
            value = value.reshape(-1)
        name = LAYER[module]
        if name == "ffn_norm" and self.arch in ("gpt-oss", "glm4moe"):
            name = "post_attention_norm"
        return {f"{block}{name}.{parameter}": value}

    def write(self, path):
        c, w = self.config, gguf.GGUFWriter(path, self.arch)
        mla = "kv_lora_rank" in c
        w.add_block_count(c["num_hidden_layers"] + self.mtp)
        w.add_context_length(c["max_position_embeddings"])
        w.add_embedding_length(c["hidden_size"])
        w.add_feed_forward_length(c["intermediate_size"])
        w.add_head_count(c["num_attention_heads"])
        w.add_head_count_kv(1 if mla and self.split_kv_b else c["num_key_value_heads"])
        w.add_layer_norm_rms_eps(c["rms_norm_eps"])
        w.add_expert_count(c.get("num_local_experts") or c.get("num_experts") or c["n_routed_experts"])
        w.add_expert_used_count(c["num_experts_per_tok"])
        w.add_vocab_size(c["vocab_size"])
        if self.arch not in ("llama", "olmoe"):
            w.add_expert_feed_forward_length(c.get("moe_intermediate_size") or c["intermediate_size"])
        if "shared_expert_intermediate_size" in c:
            w.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])
        if mla:
            self.add_latent(w)
        elif "head_dim" in c:
            w.add_key_length(c["head_dim"])
            w.add_value_length(c["head_dim"])
        if self.arch in ("deepseek2", "glm4moe"):
            self.add_deepseek(w)
        if c.get("sliding_window"):
            w.add_sliding_window(c["sliding_window"])
        if c.get("clip_qkv"):
            w.add_clamp_kqv(c["clip_qkv"])
        self.add_rope(w)
        for name, value in self.tensors().items():
            w.add_tensor(name, np.ascontiguousarray(value, np.float32))
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()

    def add_latent(self, w):
        c = self.config
        if c.get("q_lora_rank") is not None:
            w.add_q_lora_rank(c["q_lora_rank"])
        w.add_kv_lora_rank(c["kv_lora_rank"])
        key, value = c["qk_nope_head_dim"] + c["qk_rope_head_dim"], c["v_head_dim"]
        if not self.split_kv_b:
            w.add_key_length(key)
            w.add_value_length(value)
            return
        w.add_key_length(c["kv_lora_rank"] + c["qk_rope_head_dim"])
        w.add_value_length(c["kv_lora_rank"])
        w.add_key_length_mla(key)
        w.add_value_length_mla(value)

    def add_deepseek(self, w):
        c = self.config
        dense = c.get("first_k_dense_replace", c.get("mlp_layer_types", []).count("dense"))
        w.add_leading_dense_block_count(dense)
        w.add_expert_shared_count(c["n_shared_experts"])
        w.add_expert_weights_scale(c["routed_scaling_factor"])
        w.add_expert_group_count(c["n_group"])
        w.add_expert_group_used_count(c["topk_group"])
        if c.get("norm_topk_prob"):
            w.add_expert_weights_norm(True)
        if self.arch == "glm4moe":
            w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        if self.mtp:
            w.add_nextn_predict_layers(self.mtp)

    def add_rope(self, w):
        c = self.config
        rope = c["rope_parameters"]
        w.add_rope_freq_base(rope["rope_theta"])
        if "kv_lora_rank" in c:
            w.add_rope_dimension_count(c["qk_rope_head_dim"])
        elif "partial_rotary_factor" in rope:
            w.add_rope_dimension_count(int(c["head_dim"] * rope["partial_rotary_factor"]))
        elif self.arch == "llama":
            w.add_rope_dimension_count(c["head_dim"])
        if rope["rope_type"] != "yarn":
            return
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(rope["factor"])
        w.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        w.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        w.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        if "mscale_all_dim" in rope:
            w.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])


def cases():
    """Model -> its file. The older layout of latent attention has kv_b whole."""
    return {
        "mixtral": Case("mixtral", "llama"),
        "qwen2_moe": Case("qwen2_moe", "qwen2moe"),
        "qwen3_moe": Case("qwen3_moe", "qwen3moe"),
        "olmoe": Case("olmoe", "olmoe"),
        "deepseek_v2": Case("deepseek_v2", "deepseek2", split_kv_b=False),
        "deepseek_v2_lite": Case("deepseek_v2_lite", "deepseek2"),
        "deepseek_v3": Case("deepseek_v3", "deepseek2"),
        "glm4_moe": Case("glm4_moe", "glm4moe", mtp=1),
        "glm4_moe_lite": Case("glm4_moe_lite", "deepseek2", mtp=1),
        "minimax_m2": Case("minimax_m2", "minimax-m2"),
        "gpt_oss": Case("gpt_oss", "gpt-oss"),
    }


def fnv1a(data):
    """64 bits."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def described(path):
    reader = gguf.GGUFReader(path)
    metadata = []
    for field in reader.fields.values():
        if field.name.startswith("GGUF."):
            continue
        kind = GGUFValueType(field.types[0]).name.lower()
        metadata.append([field.name, kind, field.contents()])
    tensors = [[t.name, [int(n) for n in reversed(t.shape)], fnv1a(t.data.tobytes())] for t in reader.tensors]
    return {"metadata": metadata, "tensors": sorted(tensors)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files")
    files = parser.parse_args().files
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(files or folder)
        parts = []
        for name, case in cases().items():
            path = folder / f"{name}.gguf"
            case.write(path)
            file = described(path)
            rows = [f"{json.dumps(key)}: [\n" + ",\n".join("  " + json.dumps(row) for row in file[key]) + "]"
                    for key in ("metadata", "tensors")]
            parts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(rows) + "}")
        sys.stdout.write("{\n" + ",\n".join(parts) + "}\n")


if __name__ == "__main__":
    main()
