"""The tiny models of make_models.py: sizes, adapters, and what each is there to catch.

Sizes are awkward on purpose: nothing is a multiple of a SIMD width, no two dimensions agree.
"""

from transformers import LlamaConfig, Qwen2Config

ALL_LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def cases():
    """Name -> what to build; `adapter` and `regex_adapter` are arguments of peft.LoraConfig."""
    return {
        "llama_gqa": dict(
            seed=11,
            about="6 query heads on 2 key/value heads, head_dim 10 != hidden/heads, untied",
            config=LlamaConfig(
                vocab_size=101, hidden_size=30, intermediate_size=45, num_hidden_layers=2,
                num_attention_heads=6, num_key_value_heads=2, head_dim=10, rms_norm_eps=1e-4,
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
                max_position_embeddings=128, tie_word_embeddings=False),
            adapter=dict(r=5, lora_alpha=12, target_modules=ALL_LINEARS),
            merged=True),
        "llama_mqa_bias_tied": dict(
            seed=12,
            about="one key/value head, attention_bias, mlp_bias, tied, two shards, theta 500000",
            config=LlamaConfig(
                vocab_size=97, hidden_size=36, intermediate_size=51, num_hidden_layers=2,
                num_attention_heads=3, num_key_value_heads=1, rms_norm_eps=1e-5,
                attention_bias=True, mlp_bias=True,
                rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
                max_position_embeddings=128, tie_word_embeddings=True),
            adapter=dict(r=3, lora_alpha=7, target_modules=ALL_LINEARS),
            shard_bytes=60_000, legacy_config=True),
        "qwen2_patterns": dict(
            seed=13,
            about="qwen2 (bias on q, k, v), tied; rsLoRA, rank_pattern, alpha_pattern, excludes",
            config=Qwen2Config(
                vocab_size=113, hidden_size=32, intermediate_size=39, num_hidden_layers=3,
                num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-6,
                rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
                max_position_embeddings=128, tie_word_embeddings=True),
            adapter=dict(
                r=4, lora_alpha=6, use_rslora=True, target_modules=ALL_LINEARS,
                exclude_modules=["layers.1.self_attn.o_proj", "gate_proj"],
                rank_pattern={"layers.0.self_attn.v_proj": 7, "down_proj": 2, "v_proj": 3},
                alpha_pattern={"layers.2.mlp.down_proj": 9, "q_proj": 5}),
            regex_adapter=dict(
                r=2, lora_alpha=5, target_modules=r"model\.layers\.[02]\.self_attn\.(q|k|v)_proj",
                rank_pattern={r"layers\.\d+\.self_attn\.k_proj": 3},
                alpha_pattern={r"self_attn\.(k|v)_proj": 4})),
        "llama_embed_head": dict(
            seed=14,
            about="adapters on embed_tokens and lm_head (untied) besides q_proj and down_proj",
            config=LlamaConfig(
                vocab_size=103, hidden_size=28, intermediate_size=41, num_hidden_layers=2,
                num_attention_heads=4, num_key_value_heads=4, head_dim=6, rms_norm_eps=1e-5,
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
                max_position_embeddings=128, tie_word_embeddings=False),
            adapter=dict(r=4, lora_alpha=10,
                         target_modules=["embed_tokens", "lm_head", "q_proj", "down_proj"]),
            with_base_embeddings=True, merged=True),
        "llama_full": dict(
            seed=15,
            about="full training: tied head, biases everywhere, every parameter trained",
            config=LlamaConfig(
                vocab_size=96, hidden_size=24, intermediate_size=37, num_hidden_layers=2,
                num_attention_heads=3, num_key_value_heads=1, head_dim=8, rms_norm_eps=1e-5,
                attention_bias=True, mlp_bias=True,
                rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
                max_position_embeddings=128, tie_word_embeddings=True),
            full=True),
    }
