// SPDX-License-Identifier: Apache-2.0
// Shows what the ranks write, line by line, each with who wrote it:
//
//   [3]<stdout>:epoch 1, loss 0.25
//
// A thread of its own writes, so that a terminal that does not take more, or a slow disk, delays
// nothing else in the launcher. What waits to be written is bounded by whoever grants credit to
// the agents: take_written() says how much of whose output is out of memory again.
//
// All calls come from one thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.h"
#include "launcher/launch.h"
#include "launcher/lines.h"
#include "launcher/protocol.h"

namespace hvd::launcher {

class Printer {
 public:
  // Makes the files of `options.directory`, and starts the thread `hvd-output`, which calls `wake`
  // when take_written(), idle() or failure() has news.
  static Result<std::unique_ptr<Printer>> start(const OutputOptions& options, int ranks,
                                                std::function<void()> wake);
  // Does not wait: what was not idle is lost.
  ~Printer();

  // `owner` is what take_written() will name.
  void add(int rank, OutputStream stream, std::string_view bytes, size_t owner);
  // Shows a last line that has no newline.
  void end(int rank, OutputStream stream);
  // A line of the launcher itself, on standard error.
  void print_message(std::string_view line);

  struct Written {
    size_t owner;
    size_t bytes;
  };
  std::vector<Written> take_written();
  // Everything is written.
  bool idle() const;
  // Why standard output takes no more; what is for it is then dropped.
  Status failure() const;

  std::vector<std::string> last_stderr_lines(int rank) const;

 private:
  struct Shared;
  struct Item;
  struct Source {
    LineSplitter splitter;
    LastLines last;  // of standard error
  };
  Printer(const OutputOptions& options, int ranks, std::shared_ptr<Shared> shared);
  Source& source(int rank, OutputStream stream);
  void render(int rank, OutputStream stream, std::string_view piece, bool begins, Item& item);
  void queue(Item item);

  const OutputOptions options_;
  const bool colour_[2];  // by stream
  std::vector<Source> sources_;
  // The thread may still be in a write when nobody waits for it any more.
  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

// "[3]<stdout>:", with the time before it if it is not empty.
std::string line_prefix(int rank, OutputStream stream, std::string_view time);
// "rank.07" of 64 ranks.
std::string rank_folder(int rank, int ranks);

}  // namespace hvd::launcher
