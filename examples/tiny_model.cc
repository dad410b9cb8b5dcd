// Makes a chat model from nothing: learns a vocabulary, trains a small Llama-like model on
// conversations that the program itself holds, and writes the folder that `lorica` and other
// programs read. Takes less than a minute on two cores.
// usage: tiny_model --output DIR [--steps N]
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

lorica::ModelConfig Config(const lorica::Tokenizer& tokenizer) {
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
absl::StatusOr<lorica::MemorySource> Tokenize(const std::vector<Exchange>& corpus,
                                              const lorica::Tokenizer& tokenizer) {
  LORICA_ASSIGN_OR_RETURN(const lorica::ChatTemplate chat_template,
                          lorica::ChatTemplate::FromSource(kChatTemplate, "chat template", {}));
  const lorica::RecordTokenizer records(&tokenizer, &chat_template,
                                        {.train_on = lorica::TrainOn::kAll});
  std::vector<lorica::TrainingSequence> sequences;
  for (const Exchange& exchange : corpus) {
    LORICA_ASSIGN_OR_RETURN(std::vector<lorica::TokenizedRecord> examples,
                            records.Tokenize(Conversation(exchange)));
    for (lorica::TokenizedRecord& example : examples) {
      sequences.push_back(
          lorica::TrainingSequence::FromLabels(std::move(example.ids), example.labels));
    }
  }
  return lorica::MemorySource(std::move(sequences));
}

absl::Status Train(lorica::CausalLm& model, const lorica::MemorySource& source,
                   std::optional<int64_t> steps) {
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
  lorica::Trainer trainer(model, lorica::ParametersOf(model), source, options);
  while (!trainer.done()) {
    LORICA_ASSIGN_OR_RETURN(const lorica::StepMetrics step, trainer.Step());
    if (step.step % 25 == 0 || trainer.done()) {
      std::printf("step %lld of %lld: loss %.3f\n", static_cast<long long>(step.step),
                  static_cast<long long>(trainer.total_steps()), step.loss);
      std::fflush(stdout);
    }
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

absl::Status MakeTinyModel(const std::string& output, std::optional<int64_t> steps) {
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
  LORICA_ASSIGN_OR_RETURN(const lorica::MemorySource source, Tokenize(corpus, tokenizer));

  lorica::ThreadPool pool(lorica::AvailableCores());
  const std::unique_ptr<lorica::Backend> backend = lorica::MakeCpuBackend(pool);
  lorica::CausalLm model(Config(tokenizer), lorica::DType::kF32);
  lorica::InitializeRandom(model, *backend, {.seed = 1, .standard_deviation = 0.05});
  std::printf("%lld parameters, %lld conversations, %d tokens in the vocabulary\n",
              static_cast<long long>(lorica::CountParameters(model)),
              static_cast<long long>(source.size()), tokenizer.vocab_size());
  LORICA_RETURN_IF_ERROR(Train(model, source, steps));
  return Write(output, model, tokenizer_json);
}

}  // namespace

int main(int argc, char** argv) {
  std::string output;
  std::optional<int64_t> steps;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--output") output = argv[i + 1];
    if (option == "--steps") steps = std::atoll(argv[i + 1]);
  }
  if (output.empty() || argc % 2 == 0 || steps.value_or(1) < 1) {
    std::fprintf(stderr, "usage: tiny_model --output DIR [--steps N]\n");
    return 2;
  }
  const absl::Status status = MakeTinyModel(output, steps);
  if (!status.ok()) {
    std::fprintf(stderr, "tiny_model: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  std::printf("the model is in %s\n", output.c_str());
  return 0;
}
