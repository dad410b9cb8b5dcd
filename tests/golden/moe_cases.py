"""Tiny models with experts or latent attention, for make_models.py.

PEFT reaches experts by `target_parameters`. It rewrites gate_proj, up_proj and down_proj of most of
these families into the experts' fused parameters, so dense and shared feed-forwards are named by
their parameters too.
"""

from transformers import (DeepseekV2Config, DeepseekV3Config, DeepseekV32Config, Glm4MoeConfig,
                          Glm4MoeLiteConfig, GlmMoeDsaConfig, GptOssConfig, MiniMaxM2Config,
                          MixtralConfig, OlmoeConfig, Qwen2MoeConfig, Qwen3_5MoeTextConfig,
                          Qwen3MoeConfig)

QKVO = ["q_proj", "k_proj", "v_proj", "o_proj"]
MLA = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
SHARED = [f"mlp.shared_experts.{name}.weight" for name in ("gate_proj", "up_proj", "down_proj")]
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}


def dense(*layers):
    return [f"layers.{i}.mlp.{name}.weight" for i in layers
            for name in ("gate_proj", "up_proj", "down_proj")]


def case(seed, about, config, modules, parameters, rank=3, sparse=False):
    return dict(seed=seed, about=about, config=config, runs=("clip",), sparse=sparse,
                adapter=dict(r=rank, lora_alpha=7, target_modules=modules,
                             target_parameters=parameters))


def moe_cases():
    small = dict(vocab_size=53, max_position_embeddings=128)
    gqa = dict(num_attention_heads=4, num_key_value_heads=2, rope_parameters=PLAIN)
    mla = dict(num_attention_heads=3, num_key_value_heads=3, kv_lora_rank=10, qk_nope_head_dim=6,
               qk_rope_head_dim=4, v_head_dim=5)
    return {
        "mixtral": case(
            41, "softmax over the chosen two of five", MixtralConfig(
                **small, **gqa, hidden_size=20, intermediate_size=14, num_hidden_layers=2,
                head_dim=6, num_local_experts=5, num_experts_per_tok=2),
            QKVO, EXPERTS),
        "qwen2_moe": case(
            42, "shared expert with a sigmoid gate, layer 0 dense, not normalised", Qwen2MoeConfig(
                **small, **gqa, hidden_size=24, intermediate_size=26, num_hidden_layers=3,
                moe_intermediate_size=10, shared_expert_intermediate_size=14, num_experts=6,
                num_experts_per_tok=3, mlp_only_layers=[0], norm_topk_prob=False),
            QKVO,
            EXPERTS + [n.replace("shared_experts", "shared_expert") for n in SHARED] + dense(0)),
        "qwen3_moe": case(
            43, "norms of q and k, normalised, layer 1 dense by decoder_sparse_step", Qwen3MoeConfig(
                **small, **gqa, hidden_size=20, intermediate_size=26, num_hidden_layers=3,
                head_dim=6, moe_intermediate_size=11, num_experts=7, num_experts_per_tok=2,
                norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[1]),
            QKVO, EXPERTS + dense(1)),
        "olmoe": case(
            44, "norms of whole q and k, clipped q, k and v", OlmoeConfig(
                **small, **gqa, hidden_size=24, intermediate_size=12, num_hidden_layers=2,
                num_experts=6, num_experts_per_tok=3, norm_topk_prob=False, clip_qkv=1.1),
            QKVO, EXPERTS),
        "deepseek_v2": case(
            145, "q_lora_rank, groups chosen by their best expert, layer 0 dense, yarn",
            DeepseekV2Config(
                **small, **mla, hidden_size=21, intermediate_size=27, num_hidden_layers=2,
                q_lora_rank=9, moe_intermediate_size=9, n_routed_experts=8, n_shared_experts=2,
                num_experts_per_tok=3, topk_method="group_limited_greedy", n_group=4, topk_group=2,
                routed_scaling_factor=1.7, first_k_dense_replace=1, rope_parameters={
                    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                    "original_max_position_embeddings": 32, "beta_fast": 8.0, "beta_slow": 1.0,
                    "mscale": 0.7, "mscale_all_dim": 0.7}),
            MLA, EXPERTS + SHARED + dense(0)),
        "deepseek_v2_lite": case(
            46, "q_proj instead of q_a and q_b, greedy", DeepseekV2Config(
                **small, **mla, hidden_size=21, intermediate_size=27, num_hidden_layers=2,
                q_lora_rank=None, moe_intermediate_size=9, n_routed_experts=6, n_shared_experts=1,
                num_experts_per_tok=2, topk_method="greedy", n_group=1, topk_group=1,
                routed_scaling_factor=1.0, first_k_dense_replace=1, rope_parameters=PLAIN),
            ["q_proj"] + MLA[2:], EXPERTS + SHARED + dense(0)),
        "deepseek_v3": case(
            47, "groups by their best two, correction bias, yarn with both mscales",
            DeepseekV3Config(
                **small, **mla, hidden_size=21, intermediate_size=27, num_hidden_layers=3,
                q_lora_rank=9, moe_intermediate_size=9, n_routed_experts=8, n_shared_experts=1,
                num_experts_per_tok=3, n_group=4, topk_group=2, routed_scaling_factor=2.5,
                first_k_dense_replace=1, rms_norm_eps=1e-3, num_nextn_predict_layers=1,
                rope_parameters={
                    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                    "original_max_position_embeddings": 32, "beta_fast": 8.0, "beta_slow": 1.0,
                    "mscale": 1.0, "mscale_all_dim": 0.8}),
            MLA, EXPERTS + SHARED + dense(0)),
        "glm4_moe": case(
            48, "half of each head rotates, norms of q and k, biases on q, k and v", Glm4MoeConfig(
                **small, num_attention_heads=4, num_key_value_heads=2, hidden_size=20,
                intermediate_size=26, num_hidden_layers=2, head_dim=8, moe_intermediate_size=9,
                n_routed_experts=6, n_shared_experts=1, num_experts_per_tok=2, n_group=1,
                topk_group=1, routed_scaling_factor=1.3, first_k_dense_replace=1,
                attention_bias=True, use_qk_norm=True, norm_topk_prob=True,
                rope_parameters={**PLAIN, "partial_rotary_factor": 0.5}),
            QKVO, EXPERTS + SHARED + dense(0)),
        "glm4_moe_lite": case(
            49, "latent attention", Glm4MoeLiteConfig(
                **small, **mla, hidden_size=21, intermediate_size=27, num_hidden_layers=2,
                q_lora_rank=9, moe_intermediate_size=9, n_routed_experts=6, n_shared_experts=1,
                num_experts_per_tok=2, n_group=1, topk_group=1, routed_scaling_factor=1.8,
                mlp_layer_types=["dense", "sparse"], rope_parameters=PLAIN),
            MLA, EXPERTS + SHARED + dense(0)),
        "deepseek_v32": case(
            71, "an indexer leaves each query 9 keys, its rotation in halves; groups, yarn",
            DeepseekV32Config(
                **small, **mla, hidden_size=21, intermediate_size=27, num_hidden_layers=3,
                q_lora_rank=9, moe_intermediate_size=9, n_routed_experts=8, n_shared_experts=1,
                num_experts_per_tok=3, n_group=4, topk_group=2, routed_scaling_factor=2.5,
                first_k_dense_replace=1, index_topk=9, index_head_dim=7, index_n_heads=6,
                rope_parameters={
                    "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                    "original_max_position_embeddings": 32, "beta_fast": 8.0, "beta_slow": 1.0,
                    "mscale": 1.0, "mscale_all_dim": 0.8}),
            MLA, EXPERTS + SHARED + dense(0), sparse=True),
        "glm_moe_dsa": case(
            56, "an indexer in layers 0 and 2 leaves each query 9 keys, layer 1 shares",
            GlmMoeDsaConfig(
                **small, **mla, hidden_size=21, intermediate_size=27, num_hidden_layers=3,
                q_lora_rank=9, moe_intermediate_size=9, n_routed_experts=6, n_shared_experts=1,
                num_experts_per_tok=2, n_group=1, topk_group=1, routed_scaling_factor=1.8,
                first_k_dense_replace=1, index_topk=9, index_head_dim=6, index_n_heads=7,
                indexer_types=["full", "shared", "full"], attention_bias=True,
                rope_parameters=PLAIN),
            MLA, EXPERTS + SHARED + dense(0), sparse=True),
        "gpt_oss": case(
            52, "sinks, windows of 7 in turn, biases everywhere, clamped swiglu", GptOssConfig(
                **small, hidden_size=20, intermediate_size=12, num_hidden_layers=2, head_dim=6,
                num_attention_heads=4, num_key_value_heads=2, num_local_experts=5,
                num_experts_per_tok=2, sliding_window=7, rope_parameters={
                    "rope_type": "yarn", "rope_theta": 150000.0, "factor": 32.0,
                    "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                    "original_max_position_embeddings": 64}),
            QKVO, EXPERTS),
        "minimax_m2": case(
            53, "norms of whole q and k, partial rotation, sigmoid with bias", MiniMaxM2Config(
                **small, num_attention_heads=4, num_key_value_heads=2, hidden_size=20,
                intermediate_size=11, num_hidden_layers=2, head_dim=8, num_local_experts=6,
                num_experts_per_tok=2,
                rope_parameters={**PLAIN, "partial_rotary_factor": 0.5}),
            QKVO, EXPERTS),
        "qwen3_5_moe": case(
            54, "gated delta net and gated attention in turn, shared expert",
            Qwen3_5MoeTextConfig(
                **small, hidden_size=20, num_hidden_layers=2, num_attention_heads=4,
                num_key_value_heads=2, head_dim=8, linear_conv_kernel_dim=4, linear_key_head_dim=5,
                linear_value_head_dim=6, linear_num_key_heads=2, linear_num_value_heads=4,
                moe_intermediate_size=9, shared_expert_intermediate_size=11, num_experts=6,
                num_experts_per_tok=2, layer_types=["linear_attention", "full_attention"],
                rope_parameters={**PLAIN, "partial_rotary_factor": 0.5}),
            QKVO + ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"],
            EXPERTS + [n.replace("shared_experts", "shared_expert") for n in SHARED]),
    }
