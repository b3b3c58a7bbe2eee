// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <new>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/text.h"

namespace hvd {
namespace {

constexpr char kDirectory[] = "/dev/shm";
constexpr std::string_view kPrefix = "horovod-";
constexpr size_t kPage = 4096;
// MADV_POPULATE_WRITE, which the headers of older systems lack.
constexpr int kPopulateWrite = 23;

// The start of the last page of a segment. In another namespace a pid may name another process, so
// attach() checks that it has opened the right memory.
struct Identity {
  uint64_t token[2];
};

Identity make_identity() {
  Identity identity{};
  HVD_CHECK(getrandom(&identity, sizeof(identity), 0) == sizeof(identity));
  return identity;
}

std::string to_text(const Identity& identity) {
  return fmt::format("{:016x}{:016x}", identity.token[0], identity.token[1]);
}

Identity& identity_of(Bytes whole) {
  return *reinterpret_cast<Identity*>(whole.data() + whole.size() - kPage);
}

// Removes files whose creator died before all peers had opened them: no process holds their lock.
void unlink_orphans() {
  DIR* directory = opendir(kDirectory);
  if (directory == nullptr) return;
  while (const dirent* entry = readdir(directory)) {
    if (!std::string_view(entry->d_name).starts_with(kPrefix)) continue;
    const std::string path = fmt::format("{}/{}", kDirectory, entry->d_name);
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
    close(fd);
  }
  closedir(directory);
}

// Whether the kernel accounts strictly, so that it can refuse a page of a memfd at its first use.
bool memfd_can_run_out() {
  const int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
  char mode = '0';
  if (fd >= 0) {
    (void)!read(fd, &mode, 1);
    close(fd);
  }
  return mode == '2';
}

// Sets the size of the file, and allocates its pages where these can run out. Returns 0 or errno.
int reserve(int fd, SegmentKind kind, size_t bytes) {
  const auto length = static_cast<off_t>(bytes);
  if (ftruncate(fd, length) != 0) return errno;
  if (kind == SegmentKind::kMemfd && !memfd_can_run_out()) return 0;
  int error = 0;
  do {
    error = posix_fallocate(fd, 0, length);
  } while (error == EINTR);
  return error;
}

Result<int> open_new(SegmentKind kind, const std::string& path, size_t bytes) {
  int fd = -1;
  if (kind == SegmentKind::kMemfd) {
    fd = memfd_create("horovod", MFD_CLOEXEC);
    if (fd < 0) return unavailable(io_error("memfd_create", errno).message());
  } else {
    unlink_orphans();
    // Before the file is locked, unlink_orphans() of another process may have removed it: repeat.
    struct stat info {};
    do {
      if (fd >= 0) close(fd);
      fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
      if (fd < 0) return unavailable(io_error("create " + path, errno).message());
    } while (flock(fd, LOCK_SH) != 0 || fstat(fd, &info) != 0 || info.st_nlink == 0);
  }
  if (const int error = reserve(fd, kind, bytes); error != 0) {
    const Status failure =
        unavailable(io_error(fmt::format("reserve {} bytes of shared memory{}", bytes,
                                         kind == SegmentKind::kNamed ? " in /dev/shm" : ""),
                             error)
                        .message());
    close(fd);
    if (!path.empty()) unlink(path.c_str());
    return failure;
  }
  return fd;
}

Result<Bytes> map(int fd, size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return unavailable(io_error("map shared memory", errno).message());
  return Bytes(static_cast<std::byte*>(address), bytes);
}

// The kHeap segments of this process, by name, as long as at least one Segment uses them.
class HeapBlocks {
 public:
  static HeapBlocks& instance() {
    static HeapBlocks blocks;
    return blocks;
  }
  std::shared_ptr<std::byte> create(const std::string& name, size_t bytes) {
    std::shared_ptr<std::byte> block(
        static_cast<std::byte*>(::operator new(bytes, std::align_val_t(kPage))),
        [](std::byte* memory) { ::operator delete(memory, std::align_val_t(kPage)); });
    std::memset(block.get(), 0, bytes);
    MutexLock lock(mutex_);
    std::erase_if(blocks_, [](const auto& entry) { return entry.second.expired(); });
    blocks_[name] = block;
    return block;
  }
  std::shared_ptr<std::byte> find(const std::string& name) {
    MutexLock lock(mutex_);
    const auto entry = blocks_.find(name);
    return entry == blocks_.end() ? nullptr : entry->second.lock();
  }

 private:
  Mutex mutex_;
  std::map<std::string, std::weak_ptr<std::byte>> blocks_ HVD_GUARDED_BY(mutex_);
};

bool parse(std::string_view text, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Result<std::unique_ptr<Segment>> Segment::create(SegmentKind kind, size_t bytes) {
  const size_t whole = round_up(bytes, kPage) + kPage;
  const Identity identity = make_identity();
  const std::string name = to_text(identity);
  std::unique_ptr<Segment> segment(new Segment);
  Bytes memory;
  std::string place;
  if (kind == SegmentKind::kHeap) {
    segment->heap_ = HeapBlocks::instance().create(name, whole);
    memory = Bytes(segment->heap_.get(), whole);
    place = "heap:0:0";
  } else {
    if (kind == SegmentKind::kNamed)
      segment->path_ = fmt::format("{}/{}{}", kDirectory, kPrefix, name);
    HVD_TRY_ASSIGN(segment->fd_, open_new(kind, segment->path_, whole));
    HVD_TRY_ASSIGN(memory, map(segment->fd_, whole));
    segment->mapped_ = true;
    place = kind == SegmentKind::kNamed ? "named:0:0"
                                        : fmt::format("memfd:{}:{}", getpid(), segment->fd_);
  }
  segment->memory_ = memory.first(bytes);
  segment->descriptor_ = fmt::format("{}:{}:{}", place, bytes, name);
  identity_of(memory) = identity;
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::attach(const std::string& descriptor) {
  const auto parts = split(descriptor, ':');
  uint64_t pid = 0;
  uint64_t where = 0;
  uint64_t bytes = 0;
  if (parts.size() != 5 || !parse(parts[1], pid) || !parse(parts[2], where) ||
      !parse(parts[3], bytes)) {
    return internal_error("malformed shared memory descriptor '" + descriptor + "'");
  }
  const std::string name(parts[4]);
  const size_t whole = round_up(bytes, kPage) + kPage;
  std::unique_ptr<Segment> segment(new Segment);
  Bytes memory;
  if (parts[0] == "heap") {
    segment->heap_ = HeapBlocks::instance().find(name);
    if (segment->heap_ == nullptr) return unavailable("no such memory in this process: " + name);
    memory = Bytes(segment->heap_.get(), whole);
  } else {
    const std::string path = parts[0] == "named" ? fmt::format("{}/{}{}", kDirectory, kPrefix, name)
                                                 : fmt::format("/proc/{}/fd/{}", pid, where);
    segment->fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (segment->fd_ < 0) return unavailable(io_error("open " + path, errno).message());
    struct stat info {};
    if (fstat(segment->fd_, &info) != 0 || static_cast<size_t>(info.st_size) != whole) {
      return unavailable(path + " is not the shared memory that was announced");
    }
    if (parts[0] == "named") {
      flock(segment->fd_, LOCK_SH);
      segment->path_ = path;
    }
    HVD_TRY_ASSIGN(memory, map(segment->fd_, whole));
    segment->mapped_ = true;
  }
  segment->memory_ = memory.first(bytes);
  segment->descriptor_ = descriptor;
  if (to_text(identity_of(memory)) != name) {
    return unavailable("the memory behind " + descriptor + " belongs to another job");
  }
  return segment;
}

Segment::~Segment() {
  forget_name();
  const size_t whole = round_up(memory_.size(), kPage) + kPage;
  if (mapped_) munmap(memory_.data(), whole);
  if (fd_ >= 0) close(fd_);
}

void Segment::forget_name() {
  if (!path_.empty()) unlink(path_.c_str());
  path_.clear();
}

Status Segment::populate(Bytes part) {
  const auto begin = round_down(reinterpret_cast<uintptr_t>(part.data()), kPage);
  const auto end = round_up(reinterpret_cast<uintptr_t>(part.data() + part.size()), kPage);
  if (madvise(reinterpret_cast<void*>(begin), end - begin, kPopulateWrite) == 0) {
    return Status::ok();
  }
  if (errno != EINVAL) {
    // EFAULT or ENOMEM: touching the page would raise SIGBUS.
    return unavailable(
        io_error(fmt::format("no room for {} bytes of shared memory", part.size()), errno)
            .message());
  }
  // Kernels before 5.14: touch each page, by an atomic operation that keeps what other ranks wrote.
  for (uintptr_t page = begin; page < end; page += kPage) {
    std::atomic_ref<char>(*reinterpret_cast<char*>(page)).fetch_or(0, std::memory_order_relaxed);
  }
  return Status::ok();
}

}  // namespace hvd
