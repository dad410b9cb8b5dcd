"""The tiny models of make_models.py: sizes, adapters, and what each is there to catch.

Sizes are awkward on purpose: nothing is a multiple of a SIMD width, no two dimensions agree.
"""

from transformers import (Gemma2Config, Gemma3TextConfig, GraniteConfig, LlamaConfig,
                          MistralConfig, Olmo2Config, Phi3Config, Qwen2Config, Qwen3Config,
                          SmolLM3Config)

from moe_cases import moe_cases

ALL_LINEARS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def cases():
    """Name -> what to build; `adapter` and `regex_adapter` are arguments of peft.LoraConfig."""
    return {**first_cases(), **family_cases(), **rope_cases(), **moe_cases()}


def first_cases():
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


def family_cases():
    """One of each further family; windows are shorter than most records."""
    small = dict(vocab_size=53, intermediate_size=27, max_position_embeddings=128)
    plain = {"rope_type": "default", "rope_theta": 10000.0}

    def case(seed, about, config, targets=ALL_LINEARS):
        return dict(seed=seed, about=about, config=config, runs=("clip",),
                    adapter=dict(r=2, lora_alpha=5, target_modules=targets))

    return {
        "mistral": case(
            21, "every layer has a window of 7", MistralConfig(
                **small, hidden_size=22, num_hidden_layers=2, num_attention_heads=6,
                num_key_value_heads=2, head_dim=4, rms_norm_eps=1e-5, sliding_window=7,
                rope_parameters=plain)),
        "qwen2_window": case(
            22, "the last two of three layers have a window of 5", Qwen2Config(
                **small, hidden_size=24, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, use_sliding_window=True, sliding_window=5,
                max_window_layers=1, rope_parameters=plain)),
        "qwen3": case(
            23, "norms of each head of q and k, biases, tied; a window in layer 0 only", Qwen3Config(
                **small, hidden_size=22, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, head_dim=6, attention_bias=True, tie_word_embeddings=True,
                use_sliding_window=True, sliding_window=9,
                layer_types=["sliding_attention", "full_attention"],
                rope_parameters={"rope_type": "default", "rope_theta": 1000000.0})),
        "smollm3": case(
            24, "layer 1 of 3 without rotation, with a window of 7; tied", SmolLM3Config(
                **small, hidden_size=24, num_hidden_layers=3, num_attention_heads=6,
                num_key_value_heads=2, no_rope_layers=[1, 0, 1], use_sliding_window=True,
                sliding_window=7, tie_word_embeddings=True, pad_token_id=0,
                rope_parameters={"rope_type": "default", "rope_theta": 2000000.0})),
        "granite": case(
            25, "the four multipliers, biases, tied", GraniteConfig(
                **small, hidden_size=24, num_hidden_layers=2, num_attention_heads=6,
                num_key_value_heads=2, attention_bias=True, mlp_bias=True,
                embedding_multiplier=3.1, residual_multiplier=0.43, attention_multiplier=0.3,
                logits_scaling=1.7, tie_word_embeddings=True, rope_parameters=plain)),
        "olmo2": case(
            26, "norms behind attention and feed-forward, norms of whole q and k", Olmo2Config(
                **small, hidden_size=24, num_hidden_layers=2, num_attention_heads=6,
                num_key_value_heads=2, rms_norm_eps=1e-5, pad_token_id=0, rope_parameters=plain)),
        "gemma2": case(
            27, "four norms with 1 + weight, both caps, window of 5 in layers 0 and 2, tied",
            Gemma2Config(
                **small, hidden_size=20, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, head_dim=6, query_pre_attn_scalar=9, sliding_window=5,
                attn_logit_softcapping=1.5, final_logit_softcapping=2.5, rope_parameters=plain)),
        "gemma3_text": case(
            28, "norms of q and k, window of 5 and a base of its own in layers 0 and 1, linear "
            "scaling in layer 2, tied; an adapter on the scaled embedding too", Gemma3TextConfig(
                **small, hidden_size=20, num_hidden_layers=3, num_attention_heads=4,
                num_key_value_heads=2, head_dim=6, query_pre_attn_scalar=9, sliding_window=5,
                layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                rope_parameters={
                    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                    "full_attention": {"rope_type": "linear", "factor": 8.0,
                                       "rope_theta": 1000000.0}}),
            ALL_LINEARS + ["embed_tokens"]),
        "phi3": case(
            29, "fused projections, longrope over 16 positions on 6 of 8 channels", Phi3Config(
                **small, hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
                num_key_value_heads=1, rms_norm_eps=1e-5, pad_token_id=0,
                original_max_position_embeddings=16, sliding_window=19,
                rope_parameters={"rope_type": "longrope", "rope_theta": 10000.0,
                                 "partial_rotary_factor": 0.75,
                                 "short_factor": [1.0, 1.1, 1.3],
                                 "long_factor": [1.2, 2.5, 6.0]}),
            ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]),
    }


def rope_cases():
    """Kinds of rotation on one Llama, without adapter."""
    def case(seed, rope, **more):
        return dict(
            seed=seed, about=f"rotation of the kind {rope['rope_type']}",
            config=LlamaConfig(
                vocab_size=41, hidden_size=18, intermediate_size=23, num_hidden_layers=2,
                num_attention_heads=2, num_key_value_heads=1, head_dim=12, rms_norm_eps=1e-5,
                rope_parameters={"rope_theta": 10000.0, **rope}, tie_word_embeddings=True,
                **{"max_position_embeddings": 128, **more}))

    return {
        "rope_linear": case(31, {"rope_type": "linear", "factor": 3.0}),
        "rope_dynamic": case(32, {"rope_type": "dynamic", "factor": 4.0},
                             max_position_embeddings=16),
        "rope_llama3": case(33, {
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32}),
        "rope_yarn": case(34, {
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32,
            "beta_fast": 4.0, "beta_slow": 0.5}),
        "rope_yarn_mscale": case(35, {
            "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32,
            "beta_fast": 4.0, "beta_slow": 0.5, "mscale": 0.7, "mscale_all_dim": 1.3,
            "truncate": False}),
        "rope_longrope": case(36, {
            "rope_type": "longrope", "original_max_position_embeddings": 16, "factor": 6.0,
            "short_factor": [1.0, 1.0, 1.1, 1.2, 1.5, 1.7],
            "long_factor": [1.0, 1.5, 2.0, 3.0, 5.0, 8.0]}),
    }
