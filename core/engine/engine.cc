#include "engine/engine.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "engine/arguments.h"

namespace hvd {
namespace {

// The keeper works beside threads that compute: it gives way at once and sleeps soon.
constexpr WaitPolicy kKeeperPolicy{.pauses = 20, .yield_for = std::chrono::microseconds(50)};
// A rank that waits looks that often whether another has died: the word in shared memory that says
// so wakes nobody.
constexpr std::chrono::microseconds kLookForDeath{5'000};
constexpr std::chrono::microseconds kLongIdle{10'000'000};
constexpr int kPollsPerLook = 256;

// Whoever submits mostly waits next, and then runs the engine itself. So a keeper that is woken by
// a submission first looks on, from time to time: nobody has to wake it as long as it does, and it
// steps in when no one else has come. On two cores, with two ranks, it would else take the core
// from the thread that submits, and cut one batch into dozens (1000 tensors of 1 KiB took 3.1 ms
// instead of 1.0, and an operation of 4 B that was submitted first and waited for next 50 us
// instead of 3).
constexpr std::chrono::microseconds kShortestDoze{25};
constexpr std::chrono::microseconds kLongestDoze{200};
constexpr size_t kBurst = 8;      // operations in one doze: more will follow
constexpr int kLongestBurst = 5;  // dozes
// A keeper that looks on spares helpers the trouble of listening for it, a tenth of an operation of
// 4 B: so when they come often it is woken now and then, and stays if they do.
constexpr uint64_t kHelpsPerWake = 64;

void pin_to(int core) {
  if (core < 0) return;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  const int error = core < CPU_SETSIZE
                        ? ::pthread_setaffinity_np(::pthread_self(), sizeof(cores), &cores)
                        : EINVAL;
  if (error == 0) return;
  HVD_LOG(kError, "HOROVOD_THREAD_AFFINITY: cannot pin the engine to core {}: {}; it is not pinned",
          core, io_error("pthread_setaffinity_np", error).message());
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::start(const EngineOptions& options,
                                              std::shared_ptr<Transport> net,
                                              std::shared_ptr<ControlPort> port) {
  HVD_CHECK((port == nullptr) == (net->size() == 1));
  std::unique_ptr<Engine> engine(new Engine(options, std::move(net), std::move(port)));
  {
    MutexLock lock(engine->running_);
    HVD_TRY_ASSIGN(engine->worker_, Worker::make(options.worker, *engine->net_, engine->port_.get(),
                                                 engine->in_flight_));
  }
  if (engine->port_ != nullptr) {
    engine->keeper_ = start_thread(options.thread_name, [raw = engine.get()] { raw->keep(); });
  }
  return engine;
}

Engine::Engine(const EngineOptions& options, std::shared_ptr<Transport> net,
               std::shared_ptr<ControlPort> port)
    : options_(options),
      net_(std::move(net)),
      port_(std::move(port)),
      helper_policy_(WaitPolicy::for_ranks_on_host(options.ranks_on_host)) {}

Engine::~Engine() {
  if (!keeper_.joinable()) {
    end(aborted("the engine was stopped"));
    return;
  }
  stop_ = true;
  {
    // The keeper may be at work on what ends here.
    MutexLock lock(running_);
    end(aborted("the engine was stopped"));
    port_->bell().listen(Bell::Listener::kKeeper);
  }
  port_->bell().ring(Urgency::kUrgent);
  keeper_.join();
}

// Submission -------------------------------------------------------------------------------------

Status Engine::submit(Operation& operation, Follow follow) {
  if (has_ended_) return ended();
  for (TensorTask& task : operation.tasks) HVD_TRY(check_arguments(task, job_ranks()));
  HVD_TRY(in_flight_.add(operation));
  if (port_ == nullptr) {
    run_alone();
  } else if (follow == Follow::kNothing) {
    port_->bell().ring(Urgency::kUrgent);
  }
  return Status::ok();
}

void Engine::run_alone() {
  // Submitted by a callback of another operation: whoever runs that one goes on with this.
  if (alone_ == std::this_thread::get_id()) return;
  MutexLock lock(running_);
  alone_ = std::this_thread::get_id();
  do {
    advance();
  } while (!has_ended_ && in_flight_.has_queued());
  alone_ = std::thread::id();
}

Status Engine::wait(const Operation& operation, Deadline deadline) {
  if (operation.is_done()) return Status::ok();
  {
    MutexLock lock(calls_mutex_);
    calls_.push_back(&operation);
  }
  const bool done = help_until([&] { return operation.is_done(); }, deadline);
  {
    MutexLock lock(calls_mutex_);
    calls_.erase(std::find(calls_.begin(), calls_.end(), &operation));
  }
  if (done) return Status::ok();
  return timeout_error("the operation is not done yet");
}

std::string Engine::inside_call() const {
  MutexLock lock(calls_mutex_);
  if (calls_.empty()) return {};
  const Operation& operation = *calls_.front();
  if (operation.joins()) return "join";
  const Request& request = operation.tasks.front().request;
  return fmt::format("wait for {} \"{}\"", to_string(request.type), request.name);
}

// Running ----------------------------------------------------------------------------------------

bool Engine::advance() {
  if (has_ended_) {
    if (!parted_ && port_ != nullptr) parted_ = worker_->part();
    return false;
  }
  if (wants_shutdown_.exchange(false)) {
    MutexLock lock(ended_mutex_);
    worker_->request_shutdown(shutdown_);
  }
  const Result<bool> progress = worker_->step();
  wake_waiters();
  if (progress.is_ok()) return *progress;
  end(progress.status());
  return true;
}

void Engine::end(const Status& reason) {
  {
    MutexLock lock(ended_mutex_);
    if (ended_.is_ok()) ended_ = reason;
    has_ended_ = true;
  }
  const Status why = ended();
  for (const auto& operation : in_flight_.close(why)) {
    operation->note(why);
    operation->finish();
  }
  wake_waiters();
}

Status Engine::ended() const {
  MutexLock lock(ended_mutex_);
  return ended_;
}

// Whoever has seen that an operation is not done while waiters_ counts it will be woken.
void Engine::wake_waiters() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(waiting_);
  changed_.notify_all();
}

template <typename Done>
bool Engine::help_until(Done done, Deadline deadline) {
  if (done()) return true;
  if (port_ == nullptr) return done();
  helpers_.fetch_add(1);
  while (!done() && !deadline.expired()) {
    if (!running_.try_lock()) {
      wait_for_runner(done, deadline);
      continue;
    }
    const uint64_t helped = helped_.load(std::memory_order_relaxed) + 1;
    helped_.store(helped, std::memory_order_relaxed);
    run_until(done, deadline);
    if (!watched_) {
      hand_back();
      if (helped % kHelpsPerWake == 0) port_->bell().ring(Urgency::kUrgent);
    }
    running_.unlock();
    wake_waiters();  // one of them runs it next
  }
  helpers_.fetch_sub(1);
  keep_if_nobody_does();
  return done();
}

// The keeper may have gone to sleep just before we left, because we were there: with nobody
// listening, or as one that has nothing to do.
void Engine::keep_if_nobody_does() {
  const Bell::Listener listener = port_->bell().listener();
  const bool is_idle = listener == Bell::Listener::kIdleKeeper && in_flight_.count() > 0;
  if (watched_ || (listener != Bell::Listener::kNobody && !is_idle)) return;
  if (!running_.try_lock()) return;
  hand_back();
  running_.unlock();
  wake_waiters();
}

template <typename Done>
void Engine::run_until(Done done, Deadline deadline) {
  port_->bell().stop_listening();
  Backoff backoff(helper_policy_);
  for (int polls = 1; !done(); ++polls) {
    if (advance()) {
      backoff.restart();
      continue;
    }
    if (polls % kPollsPerLook == 0) {
      if (deadline.expired()) return;
      look_around();
    }
    if (backoff.pause()) sleep(Bell::Listener::kHelper, deadline);
  }
}

// Until the bell rings, or it is time to look whether everybody is alive.
void Engine::sleep(Bell::Listener listener, Deadline deadline) {
  Bell& bell = port_->bell();
  bell.listen(listener);
  port_->arm();
  if (!advance() && !in_flight_.has_queued()) {
    const auto timer = worker_->next_timer() - Worker::Clock::now();
    auto at_most = std::min(
        kLookForDeath, std::chrono::duration_cast<std::chrono::microseconds>(deadline.remaining()));
    at_most = std::min(at_most, std::chrono::duration_cast<std::chrono::microseconds>(timer));
    if (at_most.count() > 0) bell.sleep(listener, at_most);
  }
  bell.stop_listening();
  look_around();
}

void Engine::look_around() {
  if (has_ended_) return;
  Status status = port_->check();
  if (const auto now = std::chrono::steady_clock::now(); status.is_ok() && now >= next_tick_) {
    next_tick_ = now + kLookForDeath;
    status = worker_->tick(inside_call());
  }
  if (!status.is_ok()) end(status);
}

// The keeper, which may be asleep, listens from now on.
void Engine::hand_back() {
  Bell& bell = port_->bell();
  do {
    bell.listen(is_busy() ? Bell::Listener::kKeeper : Bell::Listener::kIdleKeeper);
    port_->arm();
  } while (advance());
  const bool has_timer = worker_->next_timer() != Worker::Clock::time_point::max();
  if (has_timer || in_flight_.has_queued()) bell.ring(Urgency::kUrgent);
}

template <typename Done>
void Engine::wait_for_runner(Done done, Deadline deadline) {
  port_->bell().ring(Urgency::kUrgent);  // it may be asleep, and not know what we have submitted
  Backoff backoff(helper_policy_);
  while (!backoff.pause()) {
    if (done()) return;
    if (running_.try_lock()) {
      running_.unlock();
      return;
    }
  }
  MutexLock lock(waiting_);
  waiters_.fetch_add(1);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!done()) {
    if (running_.try_lock()) {
      running_.unlock();
    } else {
      (void)changed_.wait(waiting_, earlier(deadline, Deadline::after(kLookForDeath)));
    }
  }
  waiters_.fetch_sub(1);
}

// The keeper -------------------------------------------------------------------------------------

// Returns when there may be something to do that nobody else does.
void Engine::watch() {
  const auto others_came = [this] {
    const uint64_t before = std::exchange(helped_before_, helped_.load());
    return before != helped_before_;
  };
  if (!others_came() && !in_flight_.has_queued()) return;
  watched_ = true;
  std::chrono::microseconds doze = kShortestDoze;
  size_t queued = 0;
  for (int unhelped = 0; unhelped < kLongestBurst && !stop_; ++unhelped) {
    std::this_thread::sleep_for(doze);
    doze = std::min(2 * doze, kLongestDoze);
    if (others_came()) {
      queued = 0;
      unhelped = 0;
      continue;
    }
    if (helpers_ > 0) return;  // it takes them long
    const size_t before = std::exchange(queued, in_flight_.queued());
    if (queued < before + kBurst) return;
  }
}

void Engine::keep() {
  pin_to(options_.core);
  (void)::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);  // a doze is no longer than it says
  Bell& bell = port_->bell();
  while (!stop_) {
    watch();
    const uint32_t ticket = bell.ticket();
    watched_ = false;
    if (helpers_ > 0) {
      // They listen for us when they leave.
      bell.sleep_since(ticket, Bell::Listener::kKeeper, kLongIdle);
      continue;
    }
    if (!running_.try_lock()) {  // somebody is about to leave
      std::this_thread::sleep_for(kShortestDoze);
      continue;
    }
    bell.stop_listening();
    look_around();
    Backoff backoff(kKeeperPolicy);
    while (helpers_ == 0 && !stop_) {
      if (advance()) {
        backoff.restart();
      } else if (in_flight_.count() == 0 || backoff.pause()) {
        break;
      }
    }
    const bool busy = is_busy();
    const auto listener = busy ? Bell::Listener::kKeeper : Bell::Listener::kIdleKeeper;
    bell.listen(listener);
    port_->arm();
    const bool more = advance() || in_flight_.has_queued();
    const auto timer = std::chrono::duration_cast<std::chrono::microseconds>(worker_->next_timer() -
                                                                             Worker::Clock::now());
    const uint32_t asleep = bell.ticket();
    running_.unlock();
    if (helpers_ > 0) wake_waiters();
    const auto at_most = std::min(timer, busy ? kLookForDeath : kLongIdle);
    if (!more && !stop_ && at_most.count() > 0) bell.sleep_since(asleep, listener, at_most);
  }
}

// The end ----------------------------------------------------------------------------------------

void Engine::shutdown(const Status& reason, Deadline deadline) {
  if (port_ != nullptr) {
    {
      MutexLock lock(ended_mutex_);
      if (shutdown_.is_ok()) shutdown_ = reason;
    }
    wants_shutdown_ = true;
    (void)help_until([this] { return has_ended_ && parted_; }, deadline);
  }
  end(reason);
}

}  // namespace hvd
