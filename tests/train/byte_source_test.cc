#include "lorica/train/byte_source.h"

#include "gmock/gmock.h"
#include "lorica/io/crc32c.h"
#include "train/compressed_text.h"
#include "train/text_fixture.h"

namespace lorica {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::string> ReadAll(absl::StatusOr<DataInput> input, size_t piece = 4096) {
  if (!input.ok()) return input.status();
  std::string text, buffer(piece, '\0');
  while (true) {
    const absl::StatusOr<size_t> count = input->Read(absl::MakeSpan(buffer.data(), piece));
    if (!count.ok()) return count.status();
    if (*count == 0) return text;
    text.append(buffer, 0, *count);
  }
}

absl::StatusOr<std::string> Expanded(const std::string& bytes, size_t piece = 4096) {
  return ReadAll(DataInput::OverText(bytes, "x"), piece);
}

using Compress = std::string (*)(const std::string&);

class Compressed : public ::testing::TestWithParam<Compress> {
 protected:
  std::string Text() const {
    std::string text;
    for (int i = 0; i < 3000; ++i) absl::StrAppend(&text, "{\"text\": \"record ", i * i, "\"}\n");
    return text;
  }
};

TEST_P(Compressed, GivesTheTextInPiecesOfAnySize) {
  const std::string text = Text(), bytes = GetParam()(text);
  ASSERT_LT(bytes.size(), text.size());
  for (const size_t piece : {1, 7, 4096, 1 << 20}) EXPECT_EQ(*Expanded(bytes, piece), text);
  EXPECT_EQ(*Expanded(GetParam()("")), "");
}

TEST_P(Compressed, StreamsBehindEachOtherAreOneText) {
  const std::string text = Text();
  EXPECT_EQ(*Expanded(GetParam()(text) + GetParam()("") + GetParam()("end")), text + "end");
}

TEST_P(Compressed, EveryMissingEndIsAnError) {
  const std::string bytes = GetParam()("some text, some text, some text");
  for (size_t size = 6; size < bytes.size(); ++size) {
    const auto text = Expanded(bytes.substr(0, size));
    EXPECT_TRUE(absl::IsDataLoss(text.status())) << size << " of " << bytes.size();
    EXPECT_THAT(std::string(text.status().message()), HasSubstr("its end missing")) << size;
  }
  const auto second = Expanded(bytes + bytes.substr(0, bytes.size() - 1));
  EXPECT_TRUE(absl::IsDataLoss(second.status()));
}

TEST_P(Compressed, DamageAndBytesBehindTheEndAreErrors) {
  const std::string text = Text();
  std::string bytes = GetParam()(text);
  EXPECT_FALSE(Expanded(bytes + "garbage behind the end").ok());
  // Whatever a changed byte does, it isn't taken for another text (zstd's frames here have no
  // checksum, so the text itself may come out changed there).
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x55);
  const auto damaged = Expanded(bytes);
  EXPECT_TRUE(!damaged.ok() || GetParam() == Zstd) << damaged->size();
  EXPECT_TRUE(!damaged.ok() || *damaged != text);
}

TEST_P(Compressed, ASmallFileThatIsHugeIsReadInBoundedMemory) {
  // 64 MB of spaces.
  const std::string bytes = GetParam()(std::string(64 << 20, ' '));
  ASSERT_LT(bytes.size(), 100'000u);
  absl::StatusOr<DataInput> input = DataInput::OverText(bytes, "x");
  ASSERT_TRUE(input.ok());
  std::string buffer(1 << 16, '\0');
  int64_t total = 0;
  while (true) {
    const absl::StatusOr<size_t> count = input->Read(absl::MakeSpan(buffer.data(), buffer.size()));
    ASSERT_TRUE(count.ok());
    ASSERT_LE(*count, buffer.size());
    if (*count == 0) break;
    total += static_cast<int64_t>(*count);
  }
  EXPECT_EQ(total, 64 << 20);
}

TEST_P(Compressed, SaysThatPlacesInItAreNoPlacesInTheFile) {
  EXPECT_FALSE(DataInput::OverText(GetParam()("a"), "x")->seekable());
  EXPECT_TRUE(DataInput::OverText("a", "x")->seekable());
}

INSTANTIATE_TEST_SUITE_P(Formats, Compressed, ::testing::Values(Gzip, Zstd, Xz),
                         [](const auto& format) {
                           return format.param == Gzip   ? "gzip"
                                  : format.param == Zstd ? "zstd"
                                                         : "xz";
                         });

class DataInputTest : public TextFixture {};

TEST_F(DataInputTest, SumsTheFileAsItLies) {
  const std::string bytes = Gzip("hello");
  absl::StatusOr<DataInput> input = DataInput::Open(Write("x", bytes));
  ASSERT_TRUE(input.ok());
  char buffer[64];
  while (*input->Read(buffer) > 0) continue;
  EXPECT_EQ(input->file_bytes(), static_cast<int64_t>(bytes.size()));
  EXPECT_EQ(input->file_size(), input->file_bytes());
  EXPECT_EQ(input->file_crc32c(),
            Crc32c({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}));
}

TEST_F(DataInputTest, ContainersOfOtherKindsAreNamed) {
  for (const auto& [bytes, name] : std::vector<std::pair<std::string, std::string>>{
           {"PAR1....", "Parquet"}, {"PK\3\4....", "zip"}, {"BZh91AY", "bzip2"}}) {
    const auto input = DataInput::OverText(bytes, "x");
    EXPECT_THAT(std::string(input.status().message()), HasSubstr(name));
  }
}

TEST_F(DataInputTest, AZstdWindowBeyondTheLimitIsRefused) {
  // A frame header with a window of 2^31 bytes, then an empty last block.
  const std::string bytes("\x28\xB5\x2F\xFD\x00\xA8\x01\x00\x00", 9);
  EXPECT_THAT(std::string(Expanded(bytes).status().message()), HasSubstr("memory"));
}

}  // namespace
}  // namespace lorica
