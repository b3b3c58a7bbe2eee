// SPDX-License-Identifier: Apache-2.0
// Prints the output of the ranks, line by line, with rank and stream as a prefix:
//
//   [3]<stdout>:epoch 1, loss 0.25
//
// A separate thread writes, so that a stopped terminal or a slow disk delays nothing else in the
// launcher. The queue itself has no limit. The caller bounds it by granting credit to the agents:
// take_written() reports, for each agent, how many bytes of its output have been written and freed.
//
// All public functions must be called from one thread.
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
  // Creates the files of `options.directory`, if set, and starts the thread `hvd-output`. That
  // thread calls `wake` after each write, when take_written(), idle() or failure() may have
  // changed. The thread may call `wake` even after the destructor, so `wake` must own the objects
  // that it uses. Fails if a file cannot be created.
  static Result<std::unique_ptr<Printer>> start(const OutputOptions& options, int ranks,
                                                std::function<void()> wake);
  // Does not wait for a write in progress, which may block without end: the thread is then
  // detached. Queued output is lost; to keep it, wait for idle() first.
  ~Printer();

  // Queues output of a rank. `owner` is returned by take_written(), here the index of the host.
  void add(int rank, OutputStream stream, std::string_view bytes, size_t owner);
  // The stream has ended: prints an unfinished last line.
  void end(int rank, OutputStream stream);
  // Queues a line of the launcher itself for standard error.
  void print_message(std::string_view line);

  struct Written {
    size_t owner;
    size_t bytes;
  };
  std::vector<Written> take_written();
  // Whether everything that was queued is written.
  bool idle() const;
  // The first error of standard output; later output to it is dropped. Ok if there was none.
  Status failure() const;

  // See LastLines.
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
  // Shared ownership: a detached thread may still be in a write after the destructor.
  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

// "[3]<stdout>:", after `time`, which may be empty. Programs match this format.
std::string line_prefix(int rank, OutputStream stream, std::string_view time);
// "rank.07" of 64 ranks.
std::string rank_folder(int rank, int ranks);

}  // namespace hvd::launcher
