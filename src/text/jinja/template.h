// Templates in the Jinja language, with the meaning that Python's jinja2 gives them in the
// environment that Hugging Face transformers renders chat templates in: immutable sandbox,
// trim_blocks, lstrip_blocks, loop controls,
// {% generation %} blocks, the globals raise_exception, strftime_now, namespace, range, dict,
// cycler, joiner, and json.dumps as `tojson`.
// https://jinja.palletsprojects.com/en/stable/templates/ is the description of the language.
//
// Not there: extends, include, import (there is no loader), autoescape, and the filter random; each
// is an error that names itself. Integers have 64 bits, overflow is an error. Escaped text is text:
// escaping it again does so.
#ifndef LORICA_TEXT_JINJA_TEMPLATE_H_
#define LORICA_TEXT_JINJA_TEMPLATE_H_

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lorica/text/jinja/value.h"

namespace lorica::jinja {

// Templates come with models, from anywhere: every limit ends a render with ResourceExhausted,
// never with a hang.
struct RenderLimits {
  int64_t steps =
      20'000'000;  // nodes evaluated, items looped over; a long conversation takes some 100,000
  int64_t bytes =
      int64_t{1} << 29;  // all strings and lists that the template makes, output included
  int depth = 1200;      // nested evaluation, macro calls included (a macro level takes about 6)
};

struct RenderOptions {
  RenderLimits limits;
  std::optional<std::tm> now;  // what strftime_now() formats; the local time where absent
};

struct ByteSpan {
  size_t begin = 0;
  size_t end = 0;
};

struct RenderResult {
  std::string text;
  // What the {% generation %} blocks wrote, in order, as byte ranges of `text`.
  std::vector<ByteSpan> generation_spans;
  // A {% generation %} block ran inside a macro, a set block or another block that captures its
  // output: where its text ended up in `text` isn't known, and generation_spans lacks it.
  bool generation_captured = false;
};

class Template {
 public:
  // Errors: InvalidArgument "line 3: unexpected end of template".
  static absl::StatusOr<Template> Parse(absl::string_view source);

  // `context` is a dict of the template's variables. Errors: InvalidArgument "line 3: 'foo' is
  // undefined" (the template's own raise_exception included), ResourceExhausted where a limit was
  // met. Const and thread-safe.
  absl::StatusOr<RenderResult> Render(const Value& context,
                                      const RenderOptions& options = {}) const;

  // Whether a {% generation %} block occurs anywhere.
  bool has_generation_blocks() const;

  struct Program;  // the parsed form (ast.h)

 private:
  explicit Template(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_TEMPLATE_H_
