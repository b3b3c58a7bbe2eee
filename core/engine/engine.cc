// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/thread.h"
#include "engine/arguments.h"

namespace hvd {
namespace {

// The engine thread shares its cores with threads that compute: it yields at once and sleeps soon.
constexpr WaitPolicy kEngineThreadPolicy{.pauses = 20, .yield_for = std::chrono::microseconds(50)};
// A rank that waits checks at this interval whether another rank has died: the kernel marks the
// lifeline of a dead rank in shared memory, but wakes no thread for it.
constexpr std::chrono::microseconds kLivenessInterval{5'000};
constexpr std::chrono::microseconds kLongIdle{10'000'000};
constexpr int kPollsPerLook = 256;

// A thread that submits usually waits next and then runs the engine itself. So an engine thread
// that a submission has woken does not run the engine at once. It first watches: it sleeps for a
// short time (a doze), polls, and repeats. While it watches, no thread has to wake it. If no
// waiting thread comes, it runs the engine. If it ran the engine at once, with two ranks on two
// cores it would take the core from the thread that submits, and one batch would become dozens of
// batches: 1000 tensors of 1 KiB took 3.1 ms instead of 1.0 ms, and an operation of 4 B that was
// submitted and then waited for took 50 us instead of 3 us.
constexpr std::chrono::microseconds kShortestDoze{25};
constexpr std::chrono::microseconds kLongestDoze{200};
// At least kBurst submissions during one doze are a burst: probably more follow. The engine thread
// then dozes again so that they gather, at most kLongestBurst times.
constexpr size_t kBurst = 8;
constexpr int kLongestBurst = 5;
// While the engine thread watches, a waiting thread does not need to call hand_back(), which saves
// a tenth of the time of an operation of 4 B. So when the engine thread does not watch, a waiting
// thread wakes it after every kRunsPerWake runs, so that it watches again.
constexpr uint64_t kRunsPerWake = 64;

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

// Adds 1 to `count` for its lifetime.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { count_.fetch_add(1); }
  ~Counted() { count_.fetch_sub(1); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& count_;
};

}  // namespace

// One call of wait(), while it lasts: an element of the list calls_.
class Engine::Call {
 public:
  Call(Engine& engine, const Operation& operation) : engine_(engine), operation_(operation) {
    MutexLock lock(engine_.calls_mutex_);
    next_ = std::exchange(engine_.calls_, this);
  }
  ~Call() {
    MutexLock lock(engine_.calls_mutex_);
    Call** link = &engine_.calls_;
    while (*link != this) link = &(*link)->next_;
    *link = next_;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Operation& operation() const { return operation_; }
  const Call* next() const { return next_; }

 private:
  Engine& engine_;
  const Operation& operation_;
  Call* next_ = nullptr;
};

Result<std::unique_ptr<Engine>> Engine::start(const EngineOptions& options,
                                              std::shared_ptr<Transport> transport,
                                              std::shared_ptr<ControlPlane> control) {
  HVD_CHECK((control == nullptr) == (transport->size() == 1));
  std::unique_ptr<Engine> engine(new Engine(options, std::move(transport), std::move(control)));
  {
    MutexLock lock(engine->running_);
    HVD_TRY_ASSIGN(engine->worker_, Worker::make(options.worker, *engine->transport_,
                                                 engine->control_.get(), engine->in_flight_));
  }
  if (engine->control_ != nullptr) {
    engine->thread_ =
        start_thread(options.thread_name, [raw = engine.get()] { raw->run_thread(); });
  }
  return engine;
}

Engine::Engine(const EngineOptions& options, std::shared_ptr<Transport> transport,
               std::shared_ptr<ControlPlane> control)
    : options_(options),
      transport_(std::move(transport)),
      control_(std::move(control)),
      waiting_policy_(WaitPolicy::for_ranks_on_host(options.ranks_on_host)),
      no_memory_(
          unavailable("no memory is left, and the engine has ended; use smaller tensors or free "
                      "memory, then shut down and initialize again")),
      stopped_(aborted("the engine was stopped")),
      not_done_(timeout_error("the operation is not done yet")),
      in_flight_(numbers_for(options.worker.cache_capacity)) {}

Engine::~Engine() {
  stop_ = true;
  {
    // The lock is needed because the engine thread may be running an operation that end() fails.
    MutexLock lock(running_);
    end(stopped_);
    if (thread_.joinable()) control_->doorbell().listen(Doorbell::Listener::kEngineThread);
  }
  if (!thread_.joinable()) return;
  control_->doorbell().ring(Urgency::kUrgent);
  thread_.join();
}

// Submission -------------------------------------------------------------------------------------

Status Engine::submit(Operation& operation, SubmitHint hint) noexcept {
  if (must_end_ || has_ended_) return ended();
  try {
    for (TensorTask& task : operation.tasks) HVD_TRY(check_arguments(task, job_ranks()));
    HVD_TRY(in_flight_.add(operation));
  } catch (...) {
    // The other ranks will wait for this operation, and this rank may have lost it.
    return end_by_exception();
  }
  if (control_ == nullptr) {
    run_alone();
  } else if (hint == SubmitHint::kNone) {
    control_->doorbell().ring(Urgency::kUrgent);
  }
  return Status::ok();
}

void Engine::run_alone() noexcept {
  // A callback of another operation, on this thread, has submitted this one. The loop below, which
  // runs that callback, carries this one out next.
  if (alone_ == std::this_thread::get_id()) return;
  MutexLock lock(running_);
  alone_ = std::this_thread::get_id();
  do {
    advance();
  } while (!has_ended_ && (must_end_ || in_flight_.has_queued() || worker_->has_running_batches()));
  alone_ = std::thread::id();
}

Status Engine::wait(const Operation& operation, Deadline deadline) noexcept {
  if (operation.is_done()) return Status::ok();
  const Call call(*this, operation);
  const bool done = run_until_done([&] { return operation.is_done(); }, deadline);
  return done ? Status::ok() : not_done_;
}

std::string Engine::inside_call() const {
  MutexLock lock(calls_mutex_);
  if (calls_ == nullptr) return {};
  const Call* first = calls_;
  while (first->next() != nullptr) first = first->next();
  const Operation& operation = first->operation();
  if (operation.joins()) return "join";
  const Request& request = operation.tasks.front().request;
  return fmt::format("wait for {} \"{}\"", to_string(request.type), request.name);
}

// Running ----------------------------------------------------------------------------------------

bool Engine::advance() noexcept {
  try {
    return advance_or_throw();
  } catch (...) {
    end(end_by_exception());
    return true;
  }
}

bool Engine::advance_or_throw() {
  if (has_ended_) {
    if (!parted_ && control_ != nullptr) part();
    return false;
  }
  if (must_end_) {
    end(ended());
    return true;
  }
  if (wants_shutdown_.exchange(false)) {
    MutexLock lock(ended_mutex_);
    worker_->request_shutdown(shutdown_);
  }
  const Result<bool> progress = worker_->step();
  wake_waiters();
  if (progress.is_ok()) return *progress;
  const StatusCode code = progress.status().code();
  // All ranks get these two codes, from the transport or from a plan. After any other failure the
  // other ranks would wait for this rank, so this rank aborts the transport.
  if (code != StatusCode::kPeerLost && code != StatusCode::kAborted) abort(progress.status());
  end(progress.status());
  return true;
}

void Engine::part() noexcept {
  try {
    parted_ = worker_->part();
  } catch (...) {
    parted_ = true;  // no memory for the goodbye message: the engine ends without it
  }
}

void Engine::end(const Status& reason) noexcept {
  const Status why = note_end(reason);
  has_ended_ = true;
  // The worker is null if Worker::make() failed.
  if (worker_ != nullptr) worker_->abandon_batches();
  in_flight_.close(why, [&why](Operation& operation) {
    operation.note(why);
    operation.finish();
  });
  wake_waiters();
}

Status Engine::end_by_exception() noexcept {
  Status why = note_end(status_of_exception());
  // The transport first: other ranks may be in the middle of a collective with this rank.
  abort(why);
  must_end_ = true;
  if (control_ != nullptr) control_->doorbell().ring(Urgency::kUrgent);
  return why;
}

Status Engine::status_of_exception() const noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return no_memory_;
  } catch (const std::exception& error) {
    try {
      return unavailable(fmt::format("the engine has ended: {}", error.what()));
    } catch (...) {
      return no_memory_;
    }
  } catch (...) {
    return no_memory_;  // the engine throws no other types
  }
}

void Engine::abort(const Status& reason) noexcept {
  try {
    transport_->abort(reason);
  } catch (...) {
    HVD_LOG(kError, "no memory to tell the other ranks: {}", reason.message());
  }
}

Status Engine::note_end(const Status& reason) noexcept {
  MutexLock lock(ended_mutex_);
  if (ended_.is_ok()) ended_ = reason;
  return ended_;
}

Status Engine::ended() const noexcept {
  MutexLock lock(ended_mutex_);
  return ended_;
}

// A thread in wait_for_runner() first adds itself to waiters_, then checks its operation; this
// thread first finishes operations, then reads waiters_. With a full fence between the two steps on
// both sides, either the waiting thread sees its operation done or this thread sees the waiter.
void Engine::wake_waiters() noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_relaxed) == 0) return;
  MutexLock lock(waiters_mutex_);
  changed_.notify_all();
}

template <typename Done>
bool Engine::run_until_done(Done done, Deadline deadline) noexcept {
  if (done()) return true;
  if (control_ == nullptr) {
    run_alone();  // another thread may have submitted the operation but not started to run it
    return done();
  }
  {
    const Counted waiting(waiting_threads_);
    while (!done() && !deadline.expired()) {
      if (!running_.try_lock()) {
        wait_for_runner(done, deadline);
        continue;
      }
      {
        const AdoptedLock lock(running_);
        const uint64_t runs = runs_by_waiting_.load(std::memory_order_relaxed) + 1;
        runs_by_waiting_.store(runs, std::memory_order_relaxed);
        run_until(done, deadline);
        if (!thread_polls_) {
          hand_back();
          if (runs % kRunsPerWake == 0) control_->doorbell().ring(Urgency::kUrgent);
        }
      }
      wake_waiters();  // one of them runs the engine next
    }
  }
  hand_back_if_unattended();
  return done();
}

// This function prevents a race. The engine thread sees waiting_threads_ > 0 and sleeps because of
// this thread, but only after this thread has read thread_polls_ for the last time and skipped
// hand_back(). Then no thread listens, or the engine thread listens as kIdleEngineThread although
// operations are in flight. So this thread, which no longer counts in waiting_threads_, reads the
// listener once more.
void Engine::hand_back_if_unattended() noexcept {
  const Doorbell::Listener listener = control_->doorbell().listener();
  const bool is_idle = listener == Doorbell::Listener::kIdleEngineThread && in_flight_.count() > 0;
  if (thread_polls_ || (listener != Doorbell::Listener::kNone && !is_idle)) return;
  if (!running_.try_lock()) return;
  {
    const AdoptedLock lock(running_);
    hand_back();
  }
  wake_waiters();
}

template <typename Done>
void Engine::run_until(Done done, Deadline deadline) noexcept {
  control_->doorbell().stop_listening();
  Backoff backoff(waiting_policy_);
  for (int polls = 1; !done(); ++polls) {
    if (advance()) {
      backoff.restart();
      continue;
    }
    if (polls % kPollsPerLook == 0) {
      if (deadline.expired()) return;
      look_around();
    }
    if (backoff.pause()) sleep(Doorbell::Listener::kWaitingThread, deadline);
  }
}

// Sleeps until the doorbell rings, a timer of the worker is due or kLivenessInterval has passed.
void Engine::sleep(Doorbell::Listener listener, Deadline deadline) noexcept {
  Doorbell& doorbell = control_->doorbell();
  doorbell.listen(listener);
  control_->arm();
  if (!advance() && !in_flight_.has_queued()) {
    const auto timer = worker_->next_timer() - Worker::Clock::now();
    auto at_most =
        std::min(kLivenessInterval,
                 std::chrono::duration_cast<std::chrono::microseconds>(deadline.remaining()));
    at_most = std::min(at_most, std::chrono::duration_cast<std::chrono::microseconds>(timer));
    if (at_most.count() > 0) doorbell.sleep(listener, at_most);
  }
  doorbell.stop_listening();
  look_around();
}

void Engine::look_around() noexcept {
  if (has_ended_) return;
  try {
    Status status = control_->check();
    if (const auto now = std::chrono::steady_clock::now(); status.is_ok() && now >= next_tick_) {
      next_tick_ = now + kLivenessInterval;
      status = worker_->tick(inside_call());
    }
    if (!status.is_ok()) end(status);
  } catch (...) {
    end(end_by_exception());
  }
}

// After listen() a ring wakes the engine thread, which may already sleep. A ring before listen()
// has woken no thread, so the loop takes the messages of such rings. If a timer or a queued
// operation remains, this thread rings the doorbell for the engine thread.
void Engine::hand_back() noexcept {
  Doorbell& doorbell = control_->doorbell();
  do {
    doorbell.listen(is_busy() ? Doorbell::Listener::kEngineThread
                              : Doorbell::Listener::kIdleEngineThread);
    control_->arm();
  } while (advance());
  const bool has_timer = worker_->next_timer() != Worker::Clock::time_point::max();
  if (has_timer || in_flight_.has_queued()) doorbell.ring(Urgency::kUrgent);
}

template <typename Done>
void Engine::wait_for_runner(Done done, Deadline deadline) noexcept {
  // The thread that runs the engine may sleep and not have seen the submission of this thread.
  control_->doorbell().ring(Urgency::kUrgent);
  Backoff backoff(waiting_policy_);
  while (!backoff.pause()) {
    if (done()) return;
    if (running_.try_lock()) {
      running_.unlock();
      return;
    }
  }
  MutexLock lock(waiters_mutex_);
  const Counted waiter(waiters_);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!done()) {
    if (running_.try_lock()) {
      running_.unlock();
    } else {
      (void)changed_.wait(waiters_mutex_, earlier(deadline, Deadline::after(kLivenessInterval)));
    }
  }
}

// The engine thread ------------------------------------------------------------------------------

// Dozes while waiting threads keep running the engine or a burst of submissions goes on. Returns
// when there may be work that no waiting thread will do.
void Engine::watch() noexcept {
  const auto waiting_threads_came = [this] {
    const uint64_t before = std::exchange(runs_seen_, runs_by_waiting_.load());
    return before != runs_seen_;
  };
  if (!waiting_threads_came() && !in_flight_.has_queued()) return;
  thread_polls_ = true;
  std::chrono::microseconds doze = kShortestDoze;
  size_t queued = 0;
  for (int idle_rounds = 0; idle_rounds < kLongestBurst && !stop_; ++idle_rounds) {
    std::this_thread::sleep_for(doze);
    doze = std::min(2 * doze, kLongestDoze);
    if (waiting_threads_came()) {
      queued = 0;
      idle_rounds = 0;
      continue;
    }
    if (waiting_threads_ > 0) return;  // a thread is in a long wait: stop dozing
    const size_t before = std::exchange(queued, in_flight_.queued());
    if (queued < before + kBurst) return;
  }
}

void Engine::run_thread() noexcept {
  pin_to(options_.core);
  // In ns. The default timer slack of 50 us would make the shortest doze three times as long.
  (void)::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  Doorbell& doorbell = control_->doorbell();
  while (!stop_) {
    watch();
    const uint32_t ticket = doorbell.ticket();
    thread_polls_ = false;
    if (waiting_threads_ > 0) {
      // A waiting thread that leaves makes this thread the listener of the doorbell again
      // (hand_back).
      doorbell.sleep_since(ticket, Doorbell::Listener::kEngineThread, kLongIdle);
      continue;
    }
    if (!running_.try_lock()) {  // another thread is in hand_back() or ends the engine
      std::this_thread::sleep_for(kShortestDoze);
      continue;
    }
    Pause pause;
    {
      const AdoptedLock lock(running_);
      pause = work_until_idle();
    }
    if (waiting_threads_ > 0) wake_waiters();
    if (!stop_ && pause.at_most.count() > 0) {
      doorbell.sleep_since(pause.ticket, pause.listener, pause.at_most);
    }
  }
}

Engine::Pause Engine::work_until_idle() noexcept {
  Doorbell& doorbell = control_->doorbell();
  doorbell.stop_listening();
  look_around();
  Backoff backoff(kEngineThreadPolicy);
  while (waiting_threads_ == 0 && !stop_) {
    if (advance()) {
      backoff.restart();
    } else if (in_flight_.count() == 0 || backoff.pause()) {
      break;
    }
  }
  const bool busy = is_busy();
  const auto listener =
      busy ? Doorbell::Listener::kEngineThread : Doorbell::Listener::kIdleEngineThread;
  doorbell.listen(listener);
  // Read before the last look for work: a ring after that look changes the word, so the sleep ends
  // at once.
  const uint32_t ticket = doorbell.ticket();
  control_->arm();
  const bool more = advance() || in_flight_.has_queued();
  const auto timer = std::chrono::duration_cast<std::chrono::microseconds>(worker_->next_timer() -
                                                                           Worker::Clock::now());
  const auto at_most = std::min(timer, busy ? kLivenessInterval : kLongIdle);
  return {ticket, listener, more ? std::chrono::microseconds(0) : at_most};
}

// The end ----------------------------------------------------------------------------------------

void Engine::shutdown(const Status& reason, Deadline deadline) noexcept {
  if (control_ != nullptr) {
    {
      MutexLock lock(ended_mutex_);
      if (shutdown_.is_ok()) shutdown_ = reason;
    }
    wants_shutdown_ = true;
    (void)run_until_done([this] { return has_ended_ && parted_; }, deadline);
    // Another thread may be in a collective that does not end, and may write to the memory of
    // operations that end() below would fail. The abort makes that thread return and unlock
    // running_.
    if (!has_ended_) abort(reason);
  }
  MutexLock lock(running_);
  end(reason);
}

}  // namespace hvd
