// SPDX-License-Identifier: Apache-2.0
#include "engine/timeline/trace_file.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "testing/assertions.h"

namespace hvd {
namespace {

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string temporary(const std::string& name) {
  return ::testing::TempDir() + name + std::to_string(::getpid());
}

// An event with number `i`, some bytes long.
std::string event(int i, size_t bytes) {
  const std::string text = R"({"i":)" + std::to_string(i) + R"(,"x":")";
  return text + std::string(bytes - text.size() - 2, 'x') + "\"}";
}

// A write that is cut short ends at a page boundary, so the text has to be valid after each page.
TEST(TraceFile, IsWholeAfterEveryBlockAndAtEveryPage) {
  const std::string path = temporary("pages");
  auto file = TraceFile::create(path, R"({"i":-1})");
  ASSERT_OK(file);
  EXPECT_EQ(nlohmann::json::parse(read_all(path)).size(), 1u);
  int events = 0;
  for (int block = 0; block < 14; ++block) {
    for (int i = 0; i < 37 * (block % 7); ++i, ++events) {
      ASSERT_OK(file->add(event(events, 40 + static_cast<size_t>(events * 131 % 3960))));
    }
    ASSERT_OK(file->flush());
    if (block % 3 != 0) continue;
    ASSERT_EQ(nlohmann::json::parse(read_all(path)).size(), 1u + static_cast<size_t>(events));
  }
  std::string text = read_all(path);
  EXPECT_GT(text.size(), size_t{4} << 20) << "should have grown three times";
  ASSERT_EQ(text.back(), ']');
  text.back() = ' ';
  for (size_t at = 4096; at < text.size(); at += 4096) {
    ASSERT_TRUE(nlohmann::json::accept("[0" + text.substr(at, 4096) + "]")) << at;
  }
  ASSERT_OK(file->close());
  const auto all = nlohmann::json::parse(read_all(path));
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i]["i"], static_cast<int>(i) - 1);
  EXPECT_TRUE(read_all(path).ends_with("}\n]\n"));
  std::filesystem::remove(path);
}

TEST(TraceFile, StaysWholeWhenTheDiskIsFull) {
  const std::string path = temporary("full");
  auto file = TraceFile::create(path, R"({"i":-1})");
  ASSERT_OK(file);
  // Simulates a full disk: writes beyond the limit fail, and are cut short at it.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = (size_t{3} << 20) + 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  Status added;
  size_t events = 0;
  for (; events < 100'000 && added.is_ok(); ++events) {
    added = file->add(event(static_cast<int>(events), 100));
  }
  EXPECT_CODE(StatusCode::kIo, added);
  EXPECT_THAT(added.message(), ::testing::HasSubstr(path));
  EXPECT_EQ(nlohmann::json::parse(read_all(path)).size(), events);
  EXPECT_FALSE(file->add(event(0, 100)).is_ok());
  EXPECT_OK(file->close());
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(nlohmann::json::parse(read_all(path)).size(), events);
  std::filesystem::remove(path);
}

// A mount that accepts sequential writes only: bytes are added at the end.
ssize_t append_only_pwrite(int fd, const void* bytes, size_t size, off_t at) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return -1;
  if (at == status.st_size) return ::pwrite(fd, bytes, size, at);
  errno = EOPNOTSUPP;
  return -1;
}

int refused_ftruncate(int /*fd*/, off_t /*size*/) {
  errno = EOPNOTSUPP;
  return -1;
}

TEST(TraceFile, GoesThroughALocalFileWhereWritesOutOfOrderAreRefused) {
  const FileCalls kinds[] = {{.pwrite = append_only_pwrite},
                             {.ftruncate = refused_ftruncate},
                             {append_only_pwrite, refused_ftruncate}};
  for (const FileCalls& calls : kinds) {
    const std::string path = temporary("sequential");
    auto file = TraceFile::create(path, R"({"i":-1})", calls);
    ASSERT_OK(file);
    const std::string local = file->output().local_path();
    ASSERT_NE(local, "");
    constexpr int kEvents = 30'000;  // more than one growth, and more than one block of the copy
    for (int i = 0; i < kEvents; ++i) ASSERT_OK(file->add(event(i, 100)));
    ASSERT_OK(file->flush());
    EXPECT_EQ(nlohmann::json::parse(read_all(local)).size(), 1u + kEvents);
    EXPECT_EQ(read_all(path), "");
    ASSERT_OK(file->close());
    const auto all = nlohmann::json::parse(read_all(path));
    ASSERT_EQ(all.size(), 1u + kEvents);
    EXPECT_EQ(all.back()["i"], kEvents - 1);
    EXPECT_FALSE(std::filesystem::exists(local));
    std::filesystem::remove(path);
  }
}

TEST(TraceFile, KeepsTheLocalFileThatCannotBeCopied) {
  const std::string folder = temporary("unmounted");
  std::filesystem::create_directory(folder);
  auto file =
      TraceFile::create(folder + "/t.json", R"({"i":-1})", {.ftruncate = refused_ftruncate});
  ASSERT_OK(file);
  const std::string local = file->output().local_path();
  std::filesystem::remove_all(folder);
  const Status closed = file->close();
  EXPECT_CODE(StatusCode::kIo, closed);
  EXPECT_THAT(closed.message(), ::testing::HasSubstr(folder));
  EXPECT_THAT(closed.message(), ::testing::HasSubstr(local));
  EXPECT_EQ(nlohmann::json::parse(read_all(local)).size(), 1u);
  std::filesystem::remove(local);
}

TEST(TraceFile, KnowsTheMountsOfObjectStoresByTheirNames) {
  EXPECT_TRUE(OutputFile::is_on_object_store("/dbfs/ml/timeline.json"));
  EXPECT_TRUE(OutputFile::is_on_object_store("/tmp/../dbfs/timeline.json"));
  EXPECT_TRUE(OutputFile::is_on_object_store("/Volumes/main/default/timeline.json"));
  EXPECT_FALSE(OutputFile::is_on_object_store("/dbfs_of_mine/timeline.json"));
  EXPECT_FALSE(OutputFile::is_on_object_store("timeline.json"));
}

TEST(TraceFile, SaysWhyItCannotBeOpened) {
  const auto no_folder = TraceFile::create("/no/such/folder/t.json", "{}");
  EXPECT_CODE(StatusCode::kIo, no_folder);
  EXPECT_THAT(no_folder.status().message(), ::testing::HasSubstr("/no/such/folder/t.json"));
  EXPECT_CODE(StatusCode::kInvalidArgument, TraceFile::create("/dev/null", "{}"));
}

}  // namespace
}  // namespace hvd
