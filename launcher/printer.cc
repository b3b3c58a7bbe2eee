// SPDX-License-Identifier: Apache-2.0
#include "launcher/printer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <filesystem>

#include "base/mutex.h"
#include "base/thread.h"
#include "net/fd.h"

namespace hvd::launcher {
namespace {

// As time.asctime() of Python: "Mon Nov 16 07:50:53 2026".
std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 64> text{};
  const size_t length = std::strftime(text.data(), text.size(), "%a %b %e %H:%M:%S %Y", &local);
  return {text.data(), length};
}

// Colours only on a terminal, and not if the user has set NO_COLOR (https://no-color.org).
bool wants_colour(int fd) {
  const char* refused = std::getenv("NO_COLOR");
  return (refused == nullptr || *refused == '\0') && ::isatty(fd) != 0;
}

// Neighbouring ranks get different colours; they repeat after six.
std::string coloured(int rank, const std::string& prefix) {
  constexpr std::array<int, 6> kColours = {36, 33, 32, 35, 34, 96};
  return fmt::format("\x1b[{}m{}\x1b[0m", kColours[static_cast<size_t>(rank) % kColours.size()],
                     prefix);
}

// Blocks until everything is written.
Status write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {  // another process that shares the terminal set O_NONBLOCK
      pollfd wait{fd, POLLOUT, 0};
      (void)::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return io_error("write", errno);
    }
  }
  return Status::ok();
}

// Creates missing directories, and truncates an existing file.
Result<Fd> create_file(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) return io_error("--output-filename: " + path.parent_path().string(), error.value());
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) return io_error("--output-filename: " + path.string(), errno);
  return file;
}

constexpr std::array<const char*, 2> kStreamNames = {"stdout", "stderr"};

}  // namespace

// One write. A single Item may contain many lines.
struct Printer::Item {
  OutputStream stream = OutputStream::kStdout;
  std::string text;
  int rank = -1;          // whose file also gets the text; -1: no file
  std::string file_text;  // text for the file if it differs from `text` (without colours)
  size_t owner = 0;
  size_t bytes = 0;
};

// What the calling thread and the writing thread share. `files` and `wake` are used by the writing
// thread only.
struct Printer::Shared {
  using Files = std::vector<std::array<Fd, 2>>;
  Shared(Files opened, std::function<void()> wake_up)
      : files(std::move(opened)), wake(std::move(wake_up)) {}

  const Files files;  // by rank; empty: none
  const std::function<void()> wake;

  mutable Mutex mutex;
  CondVar changed;
  std::deque<Item> items HVD_GUARDED_BY(mutex);
  std::vector<Written> written HVD_GUARDED_BY(mutex);
  bool writing HVD_GUARDED_BY(mutex) = false;
  bool stopping HVD_GUARDED_BY(mutex) = false;
  Status failure HVD_GUARDED_BY(mutex);

  // Body of the thread. After the first error of a file, no file is written any more; write_file()
  // has reported it.
  void run() {
    bool file_failed = false;
    Item item;
    while (take(item)) {
      const Status printed = print(item);
      if (!file_failed && item.rank >= 0 && !files.empty()) {
        file_failed = !write_file(item);
      }
      finish(item, printed);
    }
  }

  // Waits for an item; false when the printer is destroyed, even if items are left.
  bool take(Item& item) {
    const MutexLock lock(mutex);
    while (items.empty() && !stopping) (void)changed.wait(mutex, Deadline::never());
    if (stopping) return false;
    item = std::move(items.front());
    items.pop_front();
    writing = true;
    return true;
  }

  // The lock is not held while writing: a write may block without end.
  Status print(const Item& item) {
    const bool to_stdout = item.stream == OutputStream::kStdout;
    if (to_stdout) {
      const MutexLock lock(mutex);
      if (!failure.is_ok()) return failure;
    }
    const Status written_out = write_all(to_stdout ? STDOUT_FILENO : STDERR_FILENO, item.text);
    // A failing standard error cannot be reported anywhere and does not stop the job.
    return to_stdout ? written_out : Status::ok();
  }

  bool write_file(const Item& item) {
    const Fd& file = files[static_cast<size_t>(item.rank)][static_cast<size_t>(item.stream)];
    const Status stored =
        write_all(file.get(), item.file_text.empty() ? item.text : item.file_text);
    if (stored.is_ok()) return true;
    (void)write_all(
        STDERR_FILENO,
        fmt::format("horovodrun: --output-filename: rank {}: {}; output continues here, "
                    "but no longer in files\n",
                    item.rank, stored.message()));
    return false;
  }

  // Credit is returned only now, when the bytes have left memory.
  void finish(const Item& item, const Status& printed) {
    {
      const MutexLock lock(mutex);
      writing = false;
      if (failure.is_ok()) failure = printed;
      if (item.bytes > 0) written.push_back({item.owner, item.bytes});
    }
    wake();
  }
};

std::string line_prefix(int rank, OutputStream stream, std::string_view time) {
  return fmt::format("{}[{}]<{}>:", time, rank, kStreamNames[static_cast<size_t>(stream)]);
}

std::string rank_folder(int rank, int ranks) {
  return fmt::format("rank.{:0{}}", rank, std::to_string(ranks - 1).size());
}

Result<std::unique_ptr<Printer>> Printer::start(const OutputOptions& options, int ranks,
                                                std::function<void()> wake) {
  Shared::Files files;
  for (int rank = 0; rank < ranks && !options.directory.empty(); ++rank) {
    const auto folder = std::filesystem::path(options.directory) / rank_folder(rank, ranks);
    HVD_TRY_ASSIGN(Fd out, create_file(folder / kStreamNames[0]));
    HVD_TRY_ASSIGN(Fd err, create_file(folder / kStreamNames[1]));
    files.push_back({std::move(out), std::move(err)});
  }
  auto shared = std::make_shared<Shared>(std::move(files), std::move(wake));
  return std::unique_ptr<Printer>(new Printer(options, ranks, std::move(shared)));
}

Printer::Printer(const OutputOptions& options, int ranks, std::shared_ptr<Shared> shared)
    : options_(options),
      colour_{wants_colour(STDOUT_FILENO), wants_colour(STDERR_FILENO)},
      sources_(2 * static_cast<size_t>(ranks)),
      shared_(std::move(shared)),
      thread_(start_thread("hvd-output", [shared = shared_] { shared->run(); })) {}

// A thread in a blocked write cannot be joined. It keeps Shared alive and ends with the process.
Printer::~Printer() {
  bool stuck = false;
  {
    const MutexLock lock(shared_->mutex);
    shared_->stopping = true;
    stuck = shared_->writing;
  }
  shared_->changed.notify_all();
  if (stuck) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

Printer::Source& Printer::source(int rank, OutputStream stream) {
  return sources_[2 * static_cast<size_t>(rank) + static_cast<size_t>(stream)];
}

// Appends one piece to `item`, with its prefix if it begins a line. Files get the text without
// colours.
void Printer::render(int rank, OutputStream stream, std::string_view piece, bool begins,
                     Item& item) {
  if (stream == OutputStream::kStderr) source(rank, stream).last.add(piece, begins);
  const bool colour = colour_[static_cast<size_t>(stream)];
  std::string prefix;
  if (begins) prefix = line_prefix(rank, stream, options_.timestamps ? time_text() : "");
  if (colour && !options_.directory.empty()) item.file_text.append(prefix).append(piece);
  if (colour && begins) prefix = coloured(rank, prefix);
  item.text.append(prefix).append(piece);
}

void Printer::add(int rank, OutputStream stream, std::string_view bytes, size_t owner) {
  Item item{.stream = stream, .rank = rank, .owner = owner, .bytes = bytes.size()};
  item.text.reserve(bytes.size() + bytes.size() / 2);
  source(rank, stream).splitter.feed(bytes, [&](std::string_view piece, bool begins) {
    render(rank, stream, piece, begins, item);
  });
  queue(std::move(item));
}

void Printer::end(int rank, OutputStream stream) {
  Item item{.stream = stream, .rank = rank};
  source(rank, stream).splitter.finish([&](std::string_view piece, bool begins) {
    render(rank, stream, piece, begins, item);
  });
  queue(std::move(item));
}

void Printer::print_message(std::string_view line) {
  queue({.stream = OutputStream::kStderr, .text = fmt::format("{}\n", line)});
}

void Printer::queue(Item item) {
  {
    const MutexLock lock(shared_->mutex);
    if (item.text.empty()) {  // an unfinished line, still in the splitter: return its credit now
      if (item.bytes > 0) shared_->written.push_back({item.owner, item.bytes});
      return;
    }
    shared_->items.push_back(std::move(item));
  }
  shared_->changed.notify_one();
}

std::vector<Printer::Written> Printer::take_written() {
  const MutexLock lock(shared_->mutex);
  return std::exchange(shared_->written, {});
}

bool Printer::idle() const {
  const MutexLock lock(shared_->mutex);
  return shared_->items.empty() && !shared_->writing;
}

Status Printer::failure() const {
  const MutexLock lock(shared_->mutex);
  return shared_->failure;
}

std::vector<std::string> Printer::last_stderr_lines(int rank) const {
  return sources_[2 * static_cast<size_t>(rank) + 1].last.lines();
}

}  // namespace hvd::launcher
