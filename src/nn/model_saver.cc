// A model as a Hugging Face folder.
#include <algorithm>
#include <vector>

#include "lorica/io/safetensors.h"
#include "lorica/nn/model_loader.h"
#include "lorica/tensor/backend.h"
#include "lorica/tensor/status.h"

namespace lorica {
namespace {

constexpr int64_t kStretchBytes = int64_t{1} << 20;

absl::Status AppendValues(SafetensorsWriter& writer, const Tensor& values) {
  if (values.numel() == 0) return absl::OkStatus();
  const Tensor flat = values.WithShape({values.numel()});
  const int64_t size = static_cast<int64_t>(SizeOf(values.dtype()));
  const int64_t step = kStretchBytes / size;
  std::vector<uint8_t> bytes;
  for (int64_t begin = 0; begin < flat.numel(); begin += step) {
    const int64_t count = std::min(step, flat.numel() - begin);
    bytes.resize(static_cast<size_t>(count * size));
    values.backend().CopyToHost(flat.Narrow(0, begin, count).view(), bytes.data());
    LORICA_RETURN_IF_ERROR(writer.Append(bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteModelFiles(CausalLm& model, DirectoryCommit& folder) {
  ModelConfig written = model.config();
  written.tied = model.lm_head().tied();  // merging may have untied it
  LORICA_ASSIGN_OR_RETURN(const std::string config, ConfigJson(written, model.compute_dtype()));
  LORICA_RETURN_IF_ERROR(folder.WriteFile("config.json", absl::string_view(config)));
  std::vector<SafetensorsSpec> specs;
  std::vector<Tensor> values;  // views
  ForEachParameter(model, [&](const std::string& path, Parameter& parameter) {
    const bool transposed = PlaceInFolder(path, written).transposed;
    values.push_back(transposed ? parameter.value().Transpose(1, 2) : parameter.value());
    const Shape shape = values.back().shape();
    specs.push_back({path, StoredTypeOf(parameter.compute_dtype()), {shape.begin(), shape.end()}});
  });
  LORICA_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                          folder.Create("model.safetensors"));
  // transformers refuses a file without this word about its origin.
  LORICA_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                          SafetensorsWriter::Begin(*file, std::move(specs), {{"format", "pt"}}));
  for (const Tensor& one : values) {
    LORICA_RETURN_IF_ERROR(AppendValues(writer, raw::Contiguous(one)));
  }
  LORICA_RETURN_IF_ERROR(writer.Finish());
  return file->Close();
}

absl::Status SaveModel(CausalLm& model, const std::string& path, FileSystem& files) {
  LORICA_ASSIGN_OR_RETURN(DirectoryCommit folder, DirectoryCommit::Begin(files, path));
  LORICA_RETURN_IF_ERROR(WriteModelFiles(model, folder));
  return folder.Commit();
}

}  // namespace lorica
