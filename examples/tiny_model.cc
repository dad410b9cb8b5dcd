// Makes a chat model from nothing: learns a vocabulary, trains a small model on conversations that
// the program itself holds, and writes the folder that `lorica` and other programs read. Llama-like
// it takes less than a minute on two cores; as a mixture of experts with latent attention, in the
// form of DeepSeek-V3, a minute or two.
// usage: tiny_model --output DIR [--moe] [--steps N]
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lorica/io/atomic_commit.h"
#include "lorica/nn/init.h"
#include "lorica/nn/model_loader.h"
#include "lorica/tensor/cpu_backend.h"
#include "lorica/tensor/status.h"
#include "lorica/text/chat_template.h"
#include "lorica/text/tokenizer.h"
#include "lorica/train/evaluate.h"
#include "lorica/train/trained_spans.h"
#include "lorica/train/trainer.h"
#include "tiny_bpe.h"
#include "tiny_corpus.h"

namespace {

using lorica::examples::Exchange;

constexpr int kMerges = 600;
constexpr char kTurnBegin[] = "<|im_start|>";
constexpr char kTurnEnd[] = "<|im_end|>";
constexpr char kChatTemplate[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
constexpr char kTokenizerConfig[] =
    "{\n"
    "  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
    "  \"eos_token\": \"<|im_end|>\",\n"
    "  \"pad_token\": \"<|im_end|>\",\n"
    "  \"clean_up_tokenization_spaces\": false,\n"
    "  \"model_max_length\": 1024\n"
    "}\n";

// What stands in a config.json; the sizes of the vocabulary are filled in.
constexpr char kMoeConfig[] = R"({
  "model_type": "deepseek_v3", "vocab_size": 1,
  "hidden_size": 160, "num_hidden_layers": 4, "intermediate_size": 448,
  "num_attention_heads": 5, "num_key_value_heads": 5,
  "q_lora_rank": 64, "kv_lora_rank": 48,
  "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 32,
  "first_k_dense_replace": 1, "moe_intermediate_size": 96,
  "n_routed_experts": 16, "num_experts_per_tok": 4, "n_shared_experts": 1,
  "n_group": 1, "topk_group": 1, "norm_topk_prob": true, "routed_scaling_factor": 1.0,
  "max_position_embeddings": 1024, "tie_word_embeddings": true
})";

absl::StatusOr<lorica::ModelConfig> MoeConfig(const lorica::Tokenizer& tokenizer) {
  LORICA_ASSIGN_OR_RETURN(lorica::ModelConfig config,
                          lorica::ParseModelConfig(kMoeConfig, "tiny_model"));
  config.vocab_size = tokenizer.vocab_size();
  config.eos_token_ids = {tokenizer.TokenToId(kTurnEnd).value()};
  return config;
}

lorica::ModelConfig DenseConfig(const lorica::Tokenizer& tokenizer) {
  lorica::ModelConfig config;
  config.family = "llama";
  config.vocab_size = tokenizer.vocab_size();
  config.hidden_size = 192;
  config.intermediate_size = 512;
  config.layers = 4;
  config.heads = 6;
  config.kv_heads = 3;
  config.head_dim = 32;
  config.rope.channels = config.head_dim;
  config.tied = true;
  config.max_positions = 1024;
  config.eos_token_ids = {tokenizer.TokenToId(kTurnEnd).value()};
  return config;
}

lorica::Record Conversation(const Exchange& exchange) {
  using lorica::jinja::Dict;
  using lorica::jinja::List;
  using lorica::jinja::Value;
  lorica::Record record;
  record.format = lorica::RecordFormat::kMessages;
  record.where = exchange.question;
  record.has_messages = true;
  record.messages = Value(List{Dict({{"role", "user"}, {"content", exchange.question}}),
                               Dict({{"role", "assistant"}, {"content", exchange.answer}})});
  return record;
}

// Every conversation as tokens, all of them trained: the model has to learn what questions are,
// too.
absl::StatusOr<lorica::MemorySource> Tokenize(const std::vector<Exchange>& corpus, bool held_out,
                                              const lorica::Tokenizer& tokenizer) {
  LORICA_ASSIGN_OR_RETURN(const lorica::ChatTemplate chat_template,
                          lorica::ChatTemplate::FromSource(kChatTemplate, "chat template", {}));
  const lorica::RecordTokenizer records(&tokenizer, &chat_template,
                                        {.train_on = lorica::TrainOn::kAll});
  std::vector<lorica::TrainingSequence> sequences;
  for (const Exchange& exchange : corpus) {
    if (exchange.held_out != held_out) continue;
    LORICA_ASSIGN_OR_RETURN(std::vector<lorica::TokenizedRecord> examples,
                            records.Tokenize(Conversation(exchange)));
    for (lorica::TokenizedRecord& example : examples) {
      sequences.push_back(
          lorica::TrainingSequence::FromLabels(std::move(example.ids), example.labels));
    }
  }
  return lorica::MemorySource(std::move(sequences));
}

// Tokens of the last steps that went to the experts of each layer.
void PrintLoads(const lorica::ExpertLoads& loads) {
  for (const lorica::LayerLoad& layer : loads) {
    std::printf("%s:", layer.path.c_str());
    for (const int64_t tokens : layer.load) std::printf(" %lld", static_cast<long long>(tokens));
    std::printf("\n");
  }
}

absl::Status Train(lorica::CausalLm& model, const lorica::MemorySource& source,
                   const lorica::MemorySource& held_out, std::optional<int64_t> steps) {
  lorica::MakeTrainable(model);
  lorica::TrainerOptions options;
  options.optimizer.adamw.lr = 3e-3;
  options.optimizer.adamw.beta2 = 0.98;
  options.optimizer.adamw.weight_decay = 0.01;
  options.schedule.warmup_steps = 20;
  options.schedule.min_ratio = 0.05;
  options.batch_size = 16;
  options.epochs = 24;
  options.max_steps = steps;
  if (model.config().moe.correction_bias) options.router_bias_update = 2e-3;
  lorica::Trainer trainer(model, lorica::ParametersOf(model), source, options);
  lorica::ExpertLoads loads;
  while (!trainer.done()) {
    LORICA_ASSIGN_OR_RETURN(const lorica::StepMetrics step, trainer.Step());
    lorica::AddLoads(step.loads, loads);
    if (step.step % 25 != 0 && !trainer.done()) continue;
    LORICA_ASSIGN_OR_RETURN(const lorica::Evaluation evaluation,
                            lorica::Evaluate(model, held_out, options.batch));
    std::printf("step %lld of %lld: loss %.3f, held-out %.3f", static_cast<long long>(step.step),
                static_cast<long long>(trainer.total_steps()), step.loss, evaluation.loss());
    if (!loads.empty()) {
      std::printf(", busiest expert %.1f times the mean", lorica::WorstImbalance(loads));
    }
    std::printf("\n");
    std::fflush(stdout);
    if (trainer.done()) PrintLoads(loads);
    loads.clear();
  }
  return absl::OkStatus();
}

absl::Status Write(const std::string& path, lorica::CausalLm& model,
                   const std::string& tokenizer_json) {
  lorica::FileSystem& files = lorica::PosixFiles();
  LORICA_RETURN_IF_ERROR(lorica::MakeDirectories(files, lorica::FolderOf(path)));
  LORICA_ASSIGN_OR_RETURN(lorica::DirectoryCommit folder,
                          lorica::DirectoryCommit::Begin(files, path));
  lorica::Freeze(model);
  LORICA_RETURN_IF_ERROR(lorica::WriteModelFiles(model, folder));
  LORICA_RETURN_IF_ERROR(folder.WriteFile("tokenizer.json", absl::string_view(tokenizer_json)));
  LORICA_RETURN_IF_ERROR(
      folder.WriteFile("tokenizer_config.json", absl::string_view(kTokenizerConfig)));
  LORICA_RETURN_IF_ERROR(folder.WriteFile("chat_template.jinja", absl::string_view(kChatTemplate)));
  return folder.Commit();
}

absl::Status MakeTinyModel(const std::string& output, bool moe, std::optional<int64_t> steps) {
  if (lorica::PosixFiles().Stat(output).ok()) {
    return absl::AlreadyExistsError(output + " exists already");
  }
  const std::vector<Exchange> corpus = lorica::examples::TinyCorpus();
  std::vector<std::string> texts;
  for (const Exchange& exchange : corpus) {
    texts.push_back(exchange.question);
    texts.push_back(exchange.answer);
    texts.push_back("user\nassistant\n");
  }
  const std::string tokenizer_json =
      lorica::examples::LearnTokenizerJson(texts, kMerges, {kTurnBegin, kTurnEnd});
  LORICA_ASSIGN_OR_RETURN(
      const lorica::Tokenizer tokenizer,
      lorica::ParseTokenizerJson(tokenizer_json, "tokenizer.json", kTokenizerConfig));
  LORICA_ASSIGN_OR_RETURN(const lorica::MemorySource source, Tokenize(corpus, false, tokenizer));
  LORICA_ASSIGN_OR_RETURN(const lorica::MemorySource held_out, Tokenize(corpus, true, tokenizer));

  lorica::ThreadPool pool(lorica::AvailableCores());
  const std::unique_ptr<lorica::Backend> backend = lorica::MakeCpuBackend(pool);
  lorica::ModelConfig config = DenseConfig(tokenizer);
  if (moe) {
    LORICA_ASSIGN_OR_RETURN(config, MoeConfig(tokenizer));
  }
  lorica::CausalLm model(config, lorica::DType::kF32);
  lorica::InitializeRandom(model, *backend, {.seed = 1, .standard_deviation = 0.05});
  std::printf(
      "%lld parameters, %lld conversations and %lld held out, %d tokens in the vocabulary\n",
      static_cast<long long>(lorica::CountParameters(model)), static_cast<long long>(source.size()),
      static_cast<long long>(held_out.size()), tokenizer.vocab_size());
  LORICA_RETURN_IF_ERROR(Train(model, source, held_out, steps));
  return Write(output, model, tokenizer_json);
}

}  // namespace

int main(int argc, char** argv) {
  std::string output;
  std::optional<int64_t> steps;
  bool moe = false, understood = true;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const bool has_value = i + 1 < argc;
    if (option == "--moe") {
      moe = true;
    } else if (option == "--output" && has_value) {
      output = argv[++i];
    } else if (option == "--steps" && has_value) {
      steps = std::atoll(argv[++i]);
    } else {
      understood = false;
    }
  }
  if (!understood || output.empty() || steps.value_or(1) < 1) {
    std::fprintf(stderr, "usage: tiny_model --output DIR [--moe] [--steps N]\n");
    return 2;
  }
  const absl::Status status = MakeTinyModel(output, moe, steps);
  if (!status.ok()) {
    std::fprintf(stderr, "tiny_model: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  std::printf("the model is in %s\n", output.c_str());
  return 0;
}
