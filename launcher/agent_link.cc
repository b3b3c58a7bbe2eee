// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent_link.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>

namespace hvd::launcher {
namespace {

// Enough for the messages of ssh. Start files of a shell may print much more; only the end matters.
constexpr size_t kDiagnosticsLimit = size_t{4} << 10;

std::string last_part(const std::string& text) {
  return text.size() > kDiagnosticsLimit ? text.substr(text.size() - kDiagnosticsLimit) : text;
}

}  // namespace

Result<std::unique_ptr<AgentLink>> AgentLink::start(SpawnOptions options, Poller& poller,
                                                    uint64_t token) {
  // A new session: Ctrl-C in the terminal must reach the launcher only, which then stops the agents
  // in order. It also keeps ssh from asking for a password on the terminal.
  options.give_input = true;
  options.new_session = true;
  HVD_TRY_ASSIGN(Child child, spawn(options));
  std::unique_ptr<AgentLink> host(new AgentLink(std::move(child), poller, token));
  HVD_TRY(poller.add(host->link_->in(), kReadable, token));
  if (host->error_.valid()) {
    (void)::fcntl(host->error_.get(), F_SETFL, O_NONBLOCK);
    HVD_TRY(poller.add(host->error_.get(), kReadable, token + 2));
  }
  return host;
}

AgentLink::AgentLink(Child child, Poller& poller, uint64_t token)
    : poller_(poller),
      token_(token),
      pid_(child.pid),
      link_(std::make_unique<Link>(Link::Side::kLauncher, std::move(child.output),
                                   std::move(child.input))),
      error_(std::move(child.error)) {}

AgentLink::~AgentLink() {
  close();
  close_error();
}

size_t AgentLink::fill() {
  if (link_ == nullptr) return 0;
  const Result<size_t> count = link_->fill();
  // Copied because close() destroys the link, and diagnostics() is needed after that.
  shell_output_ = link_->shell_output();
  if (count.is_ok()) return *count;
  close();
  return 0;
}

std::optional<Message> AgentLink::next() {
  if (link_ == nullptr) return std::nullopt;
  auto message = link_->next();
  if (message.is_ok()) return std::move(*message);
  // Bytes were modified on the way, or the peer is not an agent: the stream cannot be
  // resynchronized.
  diagnostics_ += message.status().message();
  close();
  return std::nullopt;
}

void AgentLink::send(const Message& message) {
  if (link_ == nullptr) return;
  link_->send(message);
  flush();
}

void AgentLink::flush() {
  if (link_ == nullptr) return;
  link_->flush();
  // Polled for writing only while something is queued: the poller is level-triggered.
  const bool wanted = link_->wants_write();
  if (wanted == polled_for_output_) return;
  polled_for_output_ = wanted;
  if (wanted) {
    (void)poller_.add(link_->out(), kWritable, token_ + 1);
  } else {
    poller_.remove(link_->out());
  }
}

void AgentLink::flush_all(Deadline deadline) {
  if (link_ != nullptr) link_->flush_all(deadline);
}

std::vector<std::string> AgentLink::take_error_lines() {
  std::vector<std::string> lines;
  const auto keep = [&](std::string_view piece, bool begins) {
    while (piece.ends_with('\n') || piece.ends_with('\r')) piece.remove_suffix(1);
    if (begins) lines.emplace_back(piece);
  };
  std::array<char, 4096> buffer;
  while (error_.valid()) {
    const ssize_t count = ::read(error_.get(), buffer.data(), buffer.size());
    if (count < 0) break;
    if (count == 0) {
      error_splitter_.finish(keep);
      close_error();
      break;
    }
    const std::string_view bytes(buffer.data(), static_cast<size_t>(count));
    // Kept as bytes and not as lines: an unfinished line may be the explanation.
    diagnostics_ = last_part(diagnostics_.append(bytes));
    error_splitter_.feed(bytes, keep);
  }
  return lines;
}

std::string AgentLink::diagnostics() const { return last_part(shell_output_) + diagnostics_; }

void AgentLink::close() {
  if (link_ == nullptr) return;
  poller_.remove(link_->in());
  if (polled_for_output_) poller_.remove(link_->out());
  link_.reset();
}

void AgentLink::close_error() {
  if (!error_.valid()) return;
  poller_.remove(error_.get());
  error_.reset();
}

}  // namespace hvd::launcher
