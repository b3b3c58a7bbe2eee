// SPDX-License-Identifier: Apache-2.0
#include "net/poller.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>

namespace hvd {
namespace {

constexpr uint64_t kWakeToken = ~uint64_t{0};

epoll_event wanted(uint32_t events, uint64_t token) {
  epoll_event event{};
  if ((events & kReadable) != 0) event.events |= EPOLLIN;
  if ((events & kWritable) != 0) event.events |= EPOLLOUT;
  event.data.u64 = token;
  return event;
}

uint32_t happened(uint32_t events) {
  uint32_t result = 0;
  if ((events & EPOLLIN) != 0) result |= kReadable;
  if ((events & EPOLLOUT) != 0) result |= kWritable;
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) result |= kReadable | kWritable;
  return result;
}

}  // namespace

Result<std::unique_ptr<Poller>> Poller::create() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return io_error("epoll_create1", errno);
  Fd event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event.valid()) return io_error("eventfd", errno);
  std::unique_ptr<Poller> poller(new Poller(std::move(epoll), std::move(event)));
  epoll_event interest = wanted(kReadable, kWakeToken);
  if (epoll_ctl(poller->epoll_.get(), EPOLL_CTL_ADD, poller->event_.get(), &interest) != 0) {
    return io_error("epoll_ctl", errno);
  }
  return poller;
}

Status Poller::add(int fd, uint32_t events, uint64_t token) {
  HVD_CHECK(token != kWakeToken);
  epoll_event interest = wanted(events, token);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest) == 0) return Status::ok();
  return io_error("epoll_ctl add", errno);
}

Status Poller::modify(int fd, uint32_t events, uint64_t token) {
  epoll_event interest = wanted(events, token);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &interest) == 0) return Status::ok();
  return io_error("epoll_ctl modify", errno);
}

Status Poller::add_unarmed(int fd, uint64_t token) {
  HVD_CHECK(token != kWakeToken);
  epoll_event interest = wanted(0, token);
  interest.events |= EPOLLONESHOT;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest) == 0) return Status::ok();
  return io_error("epoll_ctl add", errno);
}

Status Poller::arm(int fd, uint32_t events, uint64_t token) {
  epoll_event interest = wanted(events, token);
  interest.events |= EPOLLONESHOT;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &interest) == 0) return Status::ok();
  return io_error("epoll_ctl arm", errno);
}

void Poller::remove(int fd) { (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

Status Poller::wait(std::vector<PollEvent>& events, Deadline deadline) {
  std::array<epoll_event, 64> ready;
  events.clear();
  int count = 0;
  do {
    count = epoll_wait(epoll_.get(), ready.data(), ready.size(), deadline.poll_milliseconds());
    // A timeout of epoll_wait before the deadline: poll_milliseconds() limits a single sleep.
  } while ((count < 0 && errno == EINTR) || (count == 0 && !deadline.expired()));
  if (count < 0) return io_error("epoll_wait", errno);
  for (int i = 0; i < count; ++i) {
    if (ready[i].data.u64 == kWakeToken) {
      uint64_t wakes = 0;
      (void)!::read(event_.get(), &wakes, sizeof(wakes));
    } else {
      events.push_back({ready[i].data.u64, happened(ready[i].events)});
    }
  }
  return Status::ok();
}

void Poller::wake() {
  // Fails only if the counter is at its maximum; then the poller is awake already.
  const uint64_t one = 1;
  (void)!::write(event_.get(), &one, sizeof(one));
}

}  // namespace hvd
