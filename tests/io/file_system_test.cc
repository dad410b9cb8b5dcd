#include "lorica/io/file_system.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>

#include "io_fixture.h"
#include "lorica/tensor/check.h"
#include "support/fault_file_system.h"

namespace lorica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PosixFilesTest, WritesAppendsAndCuts) {
  const TempFolder folder;
  const std::string path = folder / "f";
  {
    auto file = PosixFiles().Open(path, OpenMode::kCreateNew);
    ASSERT_OK(file);
    ASSERT_OK((*file)->Append("abc"));
    ASSERT_OK((*file)->Append(""));
    ASSERT_OK((*file)->Sync());
    ASSERT_OK((*file)->Close());
  }
  EXPECT_EQ(PosixFiles().Open(path, OpenMode::kCreateNew).status().code(),
            absl::StatusCode::kAlreadyExists);
  ASSERT_OK((*PosixFiles().Open(path, OpenMode::kAppend))->Append("def"));
  EXPECT_EQ(ReadOrDie(path), "abcdef");
  ASSERT_OK(PosixFiles().Truncate(path, 2));
  EXPECT_EQ(ReadOrDie(path), "ab");
  ASSERT_OK((*PosixFiles().Open(path, OpenMode::kReplace))->Append("x"));
  EXPECT_EQ(ReadOrDie(path), "x");
  EXPECT_EQ(PosixFiles().Stat(path)->size, 1u);
}

TEST(PosixFilesTest, ErrorsNamePathAndReason) {
  const TempFolder folder;
  const auto absent = PosixFiles().Read(folder / "no", 10);
  EXPECT_EQ(absent.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(absent.status().message(), (folder / "no") + ": can't open: No such file or directory");
  WriteOrDie(folder / "f", "12345");
  EXPECT_THAT(std::string(PosixFiles().Read(folder / "f", 4).status().message()),
              HasSubstr("expected at most 4 bytes"));
  EXPECT_EQ(*PosixFiles().Read(folder / "f", 5), "12345");
  EXPECT_FALSE(PosixFiles().Read(folder.path(), 5).ok());
  EXPECT_FALSE(PosixFiles().List(folder / "f").ok());
  EXPECT_THAT(
      std::string(PosixFiles().Open("/proc/no/file", OpenMode::kCreateNew).status().message()),
      HasSubstr("/proc/no/file: can't create: "));
}

TEST(PosixFilesTest, FullDiskIsReported) {
  auto file = PosixFiles().Open("/dev/full", OpenMode::kAppend);
  if (!file.ok()) GTEST_SKIP() << "no /dev/full here";
  const absl::Status written = (*file)->Append("x");
  EXPECT_EQ(written.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(written.message(), "/dev/full: can't write: No space left on device");
}

TEST(PosixFilesTest, RenamesWithAndWithoutReplacing) {
  const TempFolder folder;
  WriteOrDie(folder / "a", "a");
  WriteOrDie(folder / "b", "b");
  EXPECT_EQ(PosixFiles().RenameNew(folder / "a", folder / "b").code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadOrDie(folder / "b"), "b");
  ASSERT_OK(PosixFiles().Rename(folder / "a", folder / "b"));
  EXPECT_EQ(ReadOrDie(folder / "b"), "a");
  ASSERT_OK(PosixFiles().MakeDirectory(folder / "d"));
  ASSERT_OK(PosixFiles().MakeDirectory(folder / "e"));
  EXPECT_FALSE(PosixFiles().RenameNew(folder / "d", folder / "e").ok()) << "an empty folder counts";
  ASSERT_OK(PosixFiles().RenameNew(folder / "d", folder / "g"));
  EXPECT_THAT(folder.List(), ElementsAre("b", "e", "g"));
}

TEST(PosixFilesTest, MakesAndRemovesTrees) {
  const TempFolder folder;
  ASSERT_OK(MakeDirectories(PosixFiles(), folder / "a/b/c/"));
  ASSERT_OK(MakeDirectories(PosixFiles(), folder / "a/b"));
  WriteOrDie(folder / "a/b/f", "x");
  EXPECT_FALSE(MakeDirectories(PosixFiles(), folder / "a/b/f").ok());
  EXPECT_FALSE(MakeDirectories(PosixFiles(), folder / "a/b/f/g").ok());
  WriteOrDie(folder / "outside", "x");
  ASSERT_OK(PosixFiles().MakeDirectory(folder / "other"));
  WriteOrDie(folder / "other/kept", "x");
  ASSERT_EQ(symlink((folder / "other").c_str(), (folder / "a/link").c_str()), 0);
  ASSERT_OK(RemoveTree(PosixFiles(), folder / "a"));
  ASSERT_OK(RemoveTree(PosixFiles(), folder / "a"));
  EXPECT_THAT(folder.List(), ElementsAre("other", "outside"));
  EXPECT_EQ(ReadOrDie(folder / "other/kept"), "x");
}

TEST(MappedFileTest, MapsEmptyAndFullFiles) {
  const TempFolder folder;
  WriteOrDie(folder / "empty", "");
  WriteOrDie(folder / "full", "bytes");
  EXPECT_TRUE(MappedFile::Open(folder / "empty")->bytes().empty());
  auto file = MappedFile::Open(folder / "full");
  ASSERT_OK(file);
  const uint8_t* data = file->bytes().data();
  const MappedFile moved = *std::move(file);
  EXPECT_EQ(moved.bytes(), AsBytes("bytes"));
  EXPECT_EQ(moved.bytes().data(), data);
}

TEST(MappedFileTest, RefusesWhatIsNoRegularFile) {
  const TempFolder folder;
  EXPECT_THAT(std::string(MappedFile::Open(folder.path()).status().message()),
              HasSubstr("expected a regular file, found a folder"));
  EXPECT_EQ(MappedFile::Open(folder / "no").status().code(), absl::StatusCode::kNotFound);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(std::string(MappedFile::Open(folder / "pipe").status().message()),
              HasSubstr("expected a regular file, found a special file"));
}

TEST(PathTest, Parts) {
  EXPECT_EQ(JoinPath("a", "b"), "a/b");
  EXPECT_EQ(JoinPath("a/", "b"), "a/b");
  EXPECT_EQ(JoinPath("", "b"), "b");
  EXPECT_EQ(FolderOf("a/b"), "a");
  EXPECT_EQ(FolderOf("b"), ".");
  EXPECT_EQ(FolderOf("/b"), "/");
  EXPECT_EQ(NameOf("a/b"), "b");
  EXPECT_TRUE(IsPlainName("a.b"));
  for (absl::string_view bad : {"", ".", "..", "a/b", "/a"}) EXPECT_FALSE(IsPlainName(bad)) << bad;
  EXPECT_FALSE(IsPlainName(absl::string_view("a\0b", 3)));
}

// Every operation of a commit fails once, with every plausible reason: the error comes out, the old
// file stays, nothing else is left.
TEST(FileCommitTest, EveryFailureLeavesTheOldFile) {
  const TempFolder folder;
  const std::string path = folder / "f";
  WriteOrDie(path, "old");
  int failures = 0;
  for (int error : {ENOSPC, EROFS, EACCES, EIO}) {
    for (int at = 0;; ++at) {
      FaultFileSystem files({.at = at, .error = error});
      const absl::Status written = WriteFileAtomically(files, path, "new");
      if (files.operations() <= at) {
        ASSERT_OK(written);
        EXPECT_EQ(ReadOrDie(path), "new");
        WriteOrDie(path, "old");
        break;
      }
      ++failures;
      EXPECT_THAT(std::string(written.message()), HasSubstr(strerror(error)));
      EXPECT_THAT(std::string(written.message()), HasSubstr(folder.path()));
      EXPECT_THAT(folder.List(), ElementsAre("f"));
      const std::string now = ReadOrDie(path);
      EXPECT_TRUE(now == "old" || now == "new") << now;
      WriteOrDie(path, "old");
    }
  }
  EXPECT_EQ(failures, 4 * 6);  // open, write, sync, close, rename, folder sync
}

TEST(DirectoryCommitTest, AppearsWhole) {
  const TempFolder folder;
  auto commit = DirectoryCommit::Begin(PosixFiles(), folder / "d");
  ASSERT_OK(commit);
  ASSERT_OK(commit->WriteFile("a", "1"));
  auto file = commit->Create("b");
  ASSERT_OK(file);
  ASSERT_OK((*file)->Append("2"));
  EXPECT_THROW(commit->Commit().IgnoreError(), Error) << "b is open";
  ASSERT_OK((*file)->Close());
  EXPECT_THROW(commit->Create("../c").status().IgnoreError(), Error);
  EXPECT_FALSE(PosixFiles().Stat(folder / "d").ok());
  ASSERT_OK(commit->Commit());
  EXPECT_THAT(folder.List(), ElementsAre("d"));
  EXPECT_EQ(ReadOrDie(folder / "d/b"), "2");
  EXPECT_EQ(DirectoryCommit::Begin(PosixFiles(), folder / "d").status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(DirectoryCommitTest, DisappearsWithoutCommit) {
  const TempFolder folder;
  {
    auto commit = DirectoryCommit::Begin(PosixFiles(), folder / "d");
    ASSERT_OK(commit);
    ASSERT_OK(commit->WriteFile("a", "1"));
    ASSERT_EQ(folder.List().size(), 1u);
    EXPECT_TRUE(IsTemporaryName(folder.List()[0]));
  }
  EXPECT_TRUE(folder.List().empty());
}

TEST(DirectoryCommitTest, SomebodyElseWins) {
  const TempFolder folder;
  auto commit = DirectoryCommit::Begin(PosixFiles(), folder / "d");
  ASSERT_OK(commit);
  ASSERT_OK(PosixFiles().MakeDirectory(folder / "d"));
  EXPECT_EQ(commit->Commit().code(), absl::StatusCode::kAlreadyExists);
}

TEST(TemporaryNameTest, RecognisesItsOwn) {
  EXPECT_TRUE(IsTemporaryName(TemporaryName("step-1", MakeNonce())));
  EXPECT_NE(MakeNonce(), MakeNonce());
  for (absl::string_view other :
       {"step-1", ".tmp", ".a.tmp", ".step-1.0123456789abcdeX.tmp", "..0123456789abcdef.tmp"}) {
    EXPECT_FALSE(IsTemporaryName(other)) << other;
  }
}

}  // namespace
}  // namespace lorica
