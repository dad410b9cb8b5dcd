#include "lorica/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lorica/io/quoted.h"
#include "lorica/tensor/status.h"
#include "lorica/text/utf8.h"

namespace lorica {
namespace {

// Published patterns stay below a hundred steps per start of a match, but for runs of one class,
// where the steps grow with the run. Compiled code counts fewer steps than it takes; where its
// limit is reached, the interpreter decides.
constexpr uint32_t kCompiledMatchLimit = 20'000;
constexpr uint32_t kMatchLimit = 200'000;
constexpr uint32_t kMatchLimitPerByte = 16;
// KiB that backtracking may hold.
constexpr uint32_t kHeapLimit = 64 * 1024;
constexpr size_t kCompiledStackBytes = 256 * 1024;

// The limits above hold for one start of a match, so starts are taken in windows and the thread's
// time is looked at between them: often where the interpreter had to help, else once in a stretch
// that takes about a millisecond.
constexpr size_t kWindow = 4096;
constexpr size_t kWatchedWindow = 16;
constexpr size_t kLookEvery = 64 * 1024;
constexpr double kSecondsAtLeast = 2;
constexpr double kSecondsPerByte = 20e-6;  // published patterns need 10e-9

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string ErrorText(int code) {
  char buffer[256];
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(buffer), sizeof(buffer));
  return buffer;
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  bool compiled = false;  // to machine code

  Code() = default;
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
};

struct Regex::Scratch::State {
  pcre2_match_data* match = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = nullptr;

  ~State() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(match);
  }
};

Regex::Scratch::Scratch() : state_(std::make_unique<State>()) {
  pcre2_set_heap_limit(state_->context, kHeapLimit);
}
Regex::Scratch::~Scratch() = default;

absl::StatusOr<Regex> Regex::Compile(absl::string_view pattern) {
  LORICA_ASSIGN_OR_RETURN(const std::string translated, TranslateToPcre2(pattern));
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  auto code = std::make_shared<Code>();
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
      PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_USE_OFFSET_LIMIT,
      &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code->code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("regular expression ", Quoted(translated),
                                                   " can't be compiled: ", ErrorText(error),
                                                   " at offset ", offset));
  }
  // Where machine code can't be made, on this processor or in this process, the interpreter does
  // the same.
  code->compiled = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;
  return Regex(std::move(code));
}

absl::Status Regex::FindAll(absl::string_view text, Scratch* scratch,
                            std::vector<ByteRange>* matches) const {
  matches->clear();
  Scratch::State& state = *scratch->state_;
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(state.match);
  const uint32_t limit = static_cast<uint32_t>(
      std::min<uint64_t>(kMatchLimit + uint64_t{kMatchLimitPerByte} * text.size(),
                         std::numeric_limits<int32_t>::max()));
  bool watch = false;           // a search was slow
  double began = -1;            // when time was looked at first
  size_t look_at = kLookEvery;  // where to look at it next

  size_t start = 0;                   // where the next search begins
  size_t last_end = text.size() + 1;  // of the last match
  while (start <= text.size()) {
    if (watch || start >= look_at) {
      const double now = ThreadSeconds();
      if (began < 0) began = now;
      if (now - began > kSecondsAtLeast + kSecondsPerByte * static_cast<double>(text.size())) {
        return absl::ResourceExhaustedError(
            absl::StrCat("a regular expression of the tokenizer takes too long: it reached byte ",
                         start, " of a text of ", text.size()));
      }
      look_at = start + kLookEvery;
    }
    size_t last_start = std::min(text.size(), start + (watch ? kWatchedWindow : kWindow));
    while (last_start < text.size() &&
           (static_cast<unsigned char>(text[last_start]) & 0xC0) == 0x80) {
      ++last_start;
    }
    pcre2_set_offset_limit(state.context, last_start);
    const auto search = [&](uint32_t match_limit, uint32_t options) {
      pcre2_set_match_limit(state.context, match_limit);
      return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                         options | PCRE2_NO_UTF_CHECK, state.match, state.context);
    };
    int result = code_->compiled ? search(kCompiledMatchLimit, 0) : search(limit, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && state.stack == nullptr) {
      state.stack = pcre2_jit_stack_create(32 * 1024, kCompiledStackBytes, nullptr);
      pcre2_jit_stack_assign(state.context, nullptr, state.stack);
      result = search(kCompiledMatchLimit, 0);
    }
    if (code_->compiled &&
        (result == PCRE2_ERROR_JIT_STACKLIMIT || result == PCRE2_ERROR_MATCHLIMIT)) {
      watch = true;
      result = search(limit, PCRE2_NO_JIT);
    }
    if (result == PCRE2_ERROR_NOMATCH) {
      if (last_start == text.size()) break;
      start = last_start;
      look_at = start;
      continue;
    }
    if (result < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a regular expression of the tokenizer gives up at byte ", start,
                       " of a text of ", text.size(), ": ", ErrorText(result)));
    }
    // \K can set the beginning behind the end or before the search's start.
    const size_t end = found[1];
    const size_t begin = std::clamp<size_t>(found[0], std::min(start, end), end);
    if (begin == end && end == last_end) {
      if (start == text.size()) break;
      start += Utf8Length(text[start]);
      continue;
    }
    matches->push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
    start = last_end = end;
  }
  return absl::OkStatus();
}

}  // namespace lorica
