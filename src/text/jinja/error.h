// How evaluation fails inside this folder: exceptions, caught where a template is parsed or
// rendered (template.cc) and turned into absl::Status there. A tree-walking evaluator that threads
// a status through every node is several times as long, and errors end the whole render anyway.
#ifndef LORICA_TEXT_JINJA_ERROR_H_
#define LORICA_TEXT_JINJA_ERROR_H_

#include <cstdint>
#include <stdexcept>
#include <string>

#include "absl/strings/str_cat.h"
#include "lorica/text/jinja/template.h"

namespace lorica::jinja {

// The template is wrong, or an operation of it. `line` is 0 where the thrower doesn't know it.
class TemplateError : public std::runtime_error {
 public:
  explicit TemplateError(const std::string& message, int line = 0)
      : std::runtime_error(message), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

// A limit of RenderLimits was met.
class LimitError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <typename... Parts>
[[noreturn]] void Raise(const Parts&... parts) {
  throw TemplateError(absl::StrCat(parts...));
}

// What a render may still use up. Every place whose work or memory grows with the template's input
// charges it.
class Budget {
 public:
  explicit Budget(const RenderLimits& limits) : limits_(limits) {}

  void Step(int64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) {
      throw LimitError(absl::StrCat("the template didn't end within ", limits_.steps, " steps"));
    }
  }

  // Before `count` bytes are made; copying and scanning them is work, too.
  void Bytes(int64_t count) {
    bytes_ += count;
    if (bytes_ > limits_.bytes) {
      throw LimitError(absl::StrCat("the template made more than ", limits_.bytes, " bytes"));
    }
    Step(count / 256);
  }

  const RenderLimits& limits() const { return limits_; }

 private:
  RenderLimits limits_;
  int64_t steps_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace lorica::jinja

#endif  // LORICA_TEXT_JINJA_ERROR_H_
