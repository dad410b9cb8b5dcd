#include "lorica/text/jinja/template.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "lorica/tensor/check.h"
#include "lorica/text/jinja/ast.h"
#include "lorica/text/jinja/error.h"
#include "lorica/text/jinja/interpreter.h"
#include "lorica/text/jinja/parser.h"
#include "lorica/text/utf8.h"

namespace lorica::jinja {

namespace {

// The largest public chat templates have some 20 KB.
constexpr size_t kMaxSourceBytes = size_t{4} << 20;

std::string AtLine(int line, const char* message) {
  return line > 0 ? absl::StrCat("line ", line, ": ", message) : std::string(message);
}

}  // namespace

absl::StatusOr<Template> Template::Parse(absl::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a template of ", source.size(), " bytes is larger than the limit of ", kMaxSourceBytes));
  }
  if (const size_t valid = FirstInvalidUtf8(source); valid != source.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the template isn't valid UTF-8 at byte ", valid));
  }
  try {
    return Template(ParseTemplate(source));
  } catch (const TemplateError& error) {
    return absl::InvalidArgumentError(AtLine(error.line(), error.what()));
  }
}

absl::StatusOr<RenderResult> Template::Render(const Value& context,
                                              const RenderOptions& options) const {
  Interpreter interpreter(*program_, context, options);
  try {
    return interpreter.Run();
  } catch (const TemplateError& error) {
    return absl::InvalidArgumentError(
        AtLine(error.line() > 0 ? error.line() : interpreter.line(), error.what()));
  } catch (const LimitError& error) {
    return absl::ResourceExhaustedError(AtLine(interpreter.line(), error.what()));
  } catch (const Error& error) {  // a list or dict nests too deep
    return absl::ResourceExhaustedError(AtLine(interpreter.line(), error.what()));
  }
}

bool Template::has_generation_blocks() const { return program_->has_generation; }

}  // namespace lorica::jinja
