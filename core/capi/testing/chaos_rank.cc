// SPDX-License-Identifier: Apache-2.0
// One rank of a job that scripts/run_chaos.py disturbs. It runs random collectives over hvd.h and
// checks every element of every result.
//
//   hvd_chaos_rank [<name>=<number>]...
//
//   seed=N     chooses the operations; the same on all ranks
//   batches=N  random batches before a clean end; 0: until something fails
//   train=N    training steps before the batches: the same named tensors in each step
//   slices=1   waits in slices of 50 ms, so that SIGINT ends a wait
//   abrupt=1   a failure ends the process at once, without hvd_shutdown
//   dynamic=1  adds, uses and removes process sets (needs HOROVOD_DYNAMIC_PROCESS_SETS=1)
//   starve=R   rank R limits its address space before one large operation, or before hvd_init if
//              `large` is -1, and starts again afterwards together with all other ranks
//   large=N    the batch before which that operation is run
//   room=N     KiB of address space that it leaves
//
// It writes lines to standard output, one event each:
//
//   ready                            hvd_init is done
//   error <code> <where>: <text>     the first failure; the rank then leaves the job
//   starved <code> <text>            how the large operation ended on the starved rank
//   wrong <what>                     an element of a result; the process ends with 3
//   handle <what>                    hvd_submit failed but returned a handle
//   early <what>                     hvd_wait(-1) returned too early; the process ends with 4
//   interrupted                      SIGINT arrived; the rank then leaves the job
//   left                             hvd_shutdown has returned
//   again <code> <text>              outcome of the second start
//   end <batches> <operations>       the last line of a rank that was not stopped
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "capi/hvd.h"
#include "capi/testing/chaos_work.h"

namespace chaos {
namespace {

constexpr int kWrong = 3;
constexpr int kEarly = 4;

volatile std::sig_atomic_t interrupted = 0;

// Prints one line with a single write, because several processes may share the pipe.
void say(std::string line) {
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
}

// One operation of this rank ---------------------------------------------------------------------

class Call {
 public:
  Call(Work work, int rank, Dice& own) : work_(std::move(work)) {
    const auto found = std::find(work_.members.begin(), work_.members.end(), rank);
    me_ = size_t(found - work_.members.begin());
    for (const Part& part : work_.parts) {
      const size_t count = size_t(part.rows[me_] * part.columns);
      std::vector<float>& input = inputs_.emplace_back(count);
      for (size_t i = 0; i < count; ++i) input[i] = value(part, rank, int64_t(i));
      shapes_.push_back({part.rows[me_], part.columns});
    }
    const bool same_shape = work_.collective == HVD_ALLREDUCE || work_.collective == HVD_BROADCAST;
    if (same_shape) placement_ = own.roll(3);
    if (placement_ == 2) outputs_ = inputs_;
    describe_tensors();
  }
  ~Call() { hvd_release(operation_); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  const Work& work() const { return work_; }

  // Allocates nothing, because the starved rank calls it without memory.
  hvd_code submit(uint32_t flags) {
    hvd_request request = HVD_REQUEST_INIT;
    request.collective = work_.collective;
    request.op = work_.op;
    request.root = work_.root;
    request.process_set = work_.set;
    request.flags = flags;
    const hvd_code code =
        hvd_submit(&request, tensors_.data(), int32_t(tensors_.size()), &operation_);
    failed_with_handle_ = code != HVD_OK && operation_ != nullptr;
    if (failed_with_handle_) operation_ = nullptr;
    return code;
  }
  // hvd_submit has failed but has returned a handle.
  bool failed_with_handle() const { return failed_with_handle_; }

  bool submitted() const { return operation_ != nullptr; }
  hvd_operation* operation() const { return operation_; }

  // Describes what is wrong with the results; empty if nothing is.
  std::optional<std::string> wrong() const {
    for (size_t i = 0; i < work_.parts.size(); ++i) {
      hvd_output output = {sizeof(hvd_output)};
      if (hvd_get_output(operation_, int32_t(i), &output) != HVD_OK) {
        return std::string("no output: ") + hvd_error();
      }
      int64_t count = 1;
      for (int32_t d = 0; d < output.dims; ++d) count *= output.shape[d];
      if (auto found = difference(work_.parts[i], static_cast<const float*>(output.data), count)) {
        return work_.parts[i].name + ": " + *found;
      }
    }
    return std::nullopt;
  }

 private:
  void describe_tensors() {
    for (size_t i = 0; i < work_.parts.size(); ++i) {
      hvd_tensor tensor = {sizeof(hvd_tensor)};
      const Part& part = work_.parts[i];
      tensor.name = part.name.c_str();
      tensor.input = inputs_[i].data();
      if (placement_ == 1) tensor.output = inputs_[i].data();
      if (placement_ == 2) tensor.output = outputs_[i].data();
      tensor.shape = shapes_[i].data();
      tensor.dims = 2;
      tensor.dtype = HVD_FLOAT32;
      if (!part.splits.empty()) {
        tensor.splits = part.splits[me_].data();
        tensor.split_count = int32_t(part.splits[me_].size());
      }
      tensors_.push_back(tensor);
    }
  }

  std::optional<std::string> difference(const Part& part, const float* data, int64_t count) const {
    const std::vector<float> right = expected(work_, part, me_);
    if (count != int64_t(right.size())) {
      return std::to_string(count) + " elements, expected " + std::to_string(right.size());
    }
    size_t first = right.size();
    size_t wrong = 0;
    for (size_t i = 0; i < right.size(); ++i) {
      if (data[i] == right[i]) continue;
      if (wrong++ == 0) first = i;
    }
    if (wrong == 0) return std::nullopt;
    return std::to_string(wrong) + " of " + std::to_string(count) + " elements differ, element " +
           std::to_string(first) + " is " + std::to_string(data[first]) + ", expected " +
           std::to_string(right[first]);
  }

  Work work_;
  size_t me_ = 0;          // index of this rank among the members
  int64_t placement_ = 0;  // of the output. 0: memory of the library, 1: the input, 2: separate
  std::vector<std::vector<float>> inputs_;
  std::vector<std::vector<float>> outputs_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<hvd_tensor> tensors_;
  hvd_operation* operation_ = nullptr;
  bool failed_with_handle_ = false;
};

// The rank ---------------------------------------------------------------------------------------

struct Options {
  int64_t seed = 1;
  int64_t batches = 20;
  int64_t train = 0;
  bool slices = false;
  bool abrupt = false;
  bool dynamic = false;
  int64_t starve = -1;
  int64_t large = 0;
  int64_t room = 0;
};

class Rank {
 public:
  explicit Rank(Options options) : options_(options) {}

  int run() {
    if (start()) {
      if (train() && batches(options_.batches)) {
        say("end " + std::to_string(batches_) + " " + std::to_string(operations_));
        return 0;
      }
    }
    hvd_shutdown();
    say("left");
    if (options_.starve >= 0) start_again();
    say("end " + std::to_string(batches_) + " " + std::to_string(operations_));
    return 0;
  }

 private:
  // Start and end --------------------------------------------------------------------------------

  // With `starved`, hvd_init runs with little memory.
  bool init(bool starved) {
    sets_.clear();
    hvd_init_options options = {sizeof(hvd_init_options)};
    // Before hvd_init only the environment has the size; without HOROVOD_SIZE the job has one rank.
    const char* text = std::getenv("HOROVOD_SIZE");
    const int size = text == nullptr ? 1 : std::atoi(text);
    if (size > 1) sets_.push_back({0});
    if (size > 1 && !options_.dynamic) sets_.push_back({size - 1});
    if (size > 2) sets_.push_back({0, size - 1});
    if (size > 3) sets_.push_back({1, 2});
    std::vector<hvd_rank_list> lists;
    for (const auto& ranks : sets_) lists.push_back({ranks.data(), int32_t(ranks.size())});
    options.process_sets = lists.data();
    options.process_set_count = int32_t(lists.size());
    if (starved) limit_memory();
    const hvd_code code = hvd_init(&options);
    if (starved) {
      unlimit_memory();
      say("starved " + std::to_string(code) + " " + (code == HVD_OK ? "" : hvd_error()));
    }
    if (code != HVD_OK) return failed(code, "init");
    rank_ = hvd_rank();
    size_ = hvd_size();
    own_ = Dice(uint64_t(options_.seed * 1'000 + rank_));
    return true;
  }

  bool start() {
    const bool starved = options_.starve == environment_rank() && options_.large < 0;
    if (!init(starved)) return false;
    say("ready");
    return !starved;  // a starved rank leaves, so that all ranks start again
  }

  static int environment_rank() {
    const char* text = std::getenv("HOROVOD_RANK");
    return text == nullptr ? 0 : std::atoi(text);
  }

  // A rank that fails at once in its first start has to wait for ranks that fail at their timeout.
  void start_again() {
    ::setenv("HOROVOD_GLOO_TIMEOUT_SECONDS", "15", 1);
    error_.clear();
    options_.starve = -1;
    options_.seed += 1'000;
    batches_ = 0;
    if (init(false) && batches(3)) {
      say("again 0 ");
    } else {
      say("again " + error_);
      hvd_shutdown();
    }
  }

  // Stores and reports the first failure. Returns false, so that callers can return it.
  bool failed(hvd_code code, const std::string& where) {
    if (!error_.empty()) return false;
    error_ = std::to_string(code) + " " + where + ": " + hvd_error();
    say("error " + error_);
    if (options_.abrupt) std::_Exit(0);
    return false;
  }

  // Memory ---------------------------------------------------------------------------------------

  // Allocates nothing.
  void limit_memory() const {
    char text[64] = {};
    const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    [[maybe_unused]] const ssize_t got = ::read(file, text, sizeof(text) - 1);
    ::close(file);
    const rlim_t now = rlim_t(std::strtoull(text, nullptr, 10)) * rlim_t(::sysconf(_SC_PAGESIZE));
    const rlimit limit = {now + rlim_t(options_.room) * 1024, RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
  }
  static void unlimit_memory() {
    const rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_AS, &limit);
  }

  // One operation of 16 MiB per rank. The starved rank leaves afterwards, whether it failed or not.
  bool large_operation() {
    Dice shared(uint64_t(options_.seed) + 77);
    constexpr hvd_collective kLarge[] = {HVD_ALLGATHER, HVD_ALLTOALL, HVD_REDUCESCATTER,
                                         HVD_ALLREDUCE};
    Work work = global(kLarge[shared.roll(std::size(kLarge))], HVD_SUM);
    const int64_t mode = shared.roll(3);
    const int parts = work.collective == HVD_ALLREDUCE ? 2 : 1;
    for (int i = 0; i < parts; ++i) {
      work.parts.push_back(part("large" + std::to_string(i), 4'194'304 / parts, 1, shared));
    }
    if (options_.starve != rank_) return together({work}, mode);
    Call call(work, rank_, own_);
    limit_memory();
    hvd_code code = call.submit(mode == 0 ? HVD_WILL_WAIT : 0);
    if (code == HVD_OK) code = wait(call, mode);
    unlimit_memory();
    say("starved " + std::to_string(code) + " " + (code == HVD_OK ? "" : hvd_error()));
    report_handle(call);
    if (code == HVD_OK) check(call);
    hvd_shutdown();  // ends operations in flight before their tensors are freed
    return false;
  }

  // Operations -----------------------------------------------------------------------------------

  Work global(hvd_collective collective, hvd_reduce_op op) const {
    Work work;
    work.collective = collective;
    work.op = op;
    work.members.resize(size_t(size_));
    std::iota(work.members.begin(), work.members.end(), 0);
    return work;
  }

  Part part(std::string name, int64_t rows, int64_t columns, Dice& shared) const {
    Part made;
    made.name = std::move(name);
    made.rows.assign(size_t(size_), rows);
    made.columns = columns;
    made.salt = shared.roll(61);
    return made;
  }

  Work random_work(const std::string& name, Dice& shared, std::set<int>& barriers) const {
    constexpr hvd_collective kKinds[] = {HVD_ALLREDUCE, HVD_ALLREDUCE,    HVD_ALLREDUCE,
                                         HVD_ALLGATHER, HVD_BROADCAST,    HVD_ALLTOALL,
                                         HVD_BARRIER,   HVD_REDUCESCATTER};
    Work work = global(kKinds[shared.roll(std::size(kKinds))], HVD_SUM);
    if (!sets_.empty() && shared.one_in(3)) {
      work.set = 1 + int(shared.roll(int64_t(sets_.size())));
      work.members = sets_[size_t(work.set) - 1];
    }
    // Only one barrier at a time may be in flight in a set.
    if (work.collective == HVD_BARRIER && !barriers.insert(work.set).second) {
      work.collective = HVD_BROADCAST;
    }
    if (work.collective == HVD_BARRIER) return work;
    constexpr hvd_reduce_op kOps[] = {HVD_SUM, HVD_AVERAGE, HVD_MIN, HVD_MAX, HVD_PRODUCT};
    if (work.collective == HVD_ALLREDUCE) work.op = kOps[shared.roll(std::size(kOps))];
    if (work.collective == HVD_REDUCESCATTER) work.op = kOps[shared.roll(2)];
    work.root = work.members[size_t(shared.roll(int64_t(work.members.size())))];
    const int64_t parts = work.collective == HVD_ALLREDUCE && shared.one_in(4) ? 3 : 1;
    for (int64_t i = 0; i < parts; ++i) {
      work.parts.push_back(random_part(name + "." + std::to_string(i), work, shared));
    }
    return work;
  }

  Part random_part(std::string name, const Work& work, Dice& shared) const {
    const auto ranks = int64_t(work.members.size());
    const int64_t columns = 1 + shared.roll(3);
    Part made = part(std::move(name), shared.count() / columns, columns, shared);
    made.rows.resize(size_t(ranks));
    if (work.collective == HVD_ALLGATHER) {
      for (int64_t& rows : made.rows) rows = shared.count() / columns / ranks;
    }
    if (work.collective != HVD_ALLTOALL) return made;
    if (shared.one_in(2)) {  // equal parts
      for (int64_t& rows : made.rows) rows -= rows % ranks;
      return made;
    }
    for (int64_t& rows : made.rows) {
      auto& splits = made.splits.emplace_back();
      for (int64_t m = 0; m < ranks; ++m) splits.push_back(int32_t(shared.count() / ranks / 4));
      rows = std::accumulate(splits.begin(), splits.end(), int64_t{0});
    }
    return made;
  }

  // Waits until the call is done. Mode 1 polls, so that the engine thread has to do the work.
  hvd_code wait(const Call& call, int64_t mode) {
    using namespace std::chrono_literals;
    while (mode == 1 && !hvd_poll(call.operation()) && !interrupted) {
      std::this_thread::sleep_for(500us);
    }
    if (!options_.slices) {
      const hvd_code code = hvd_wait(call.operation(), -1);
      if (code == HVD_TIMEOUT && !hvd_poll(call.operation())) {
        say("early " + describe(call.work()));
        std::_Exit(kEarly);
      }
      return code;
    }
    for (;;) {
      const hvd_code code = hvd_wait(call.operation(), 0.05);
      if (code != HVD_TIMEOUT || hvd_poll(call.operation())) return code;
      if (interrupted) return HVD_TIMEOUT;
    }
  }

  static void report_handle(const Call& call) {
    if (call.failed_with_handle()) say("handle " + describe(call.work()));
  }

  void check(const Call& call) const {
    if (const auto found = call.wrong()) {
      say("wrong " + describe(call.work()) + ": " + *found);
      std::_Exit(kWrong);
    }
  }

  // Runs the operations of `works` of which this rank is a member. Mode 0 waits for each before the
  // next, in the order of the list. Modes 1 and 2 first submit all of them in a random order of
  // this rank. Ranks may choose different modes. Returns whether all succeeded; on return no
  // operation is in flight.
  bool together(const std::vector<Work>& works, int64_t mode) {
    std::vector<std::unique_ptr<Call>> calls;
    for (const Work& work : works) {
      const auto& members = work.members;
      if (std::find(members.begin(), members.end(), rank_) == members.end()) continue;
      calls.push_back(std::make_unique<Call>(work, rank_, own_));
    }
    for (size_t i = calls.size(); mode != 0 && i > 1; --i) {
      std::swap(calls[i - 1], calls[size_t(own_.roll(int64_t(i)))]);
    }
    bool good = true;
    for (auto& call : calls) {
      if (interrupted || !good) break;
      const hvd_code code = call->submit(mode == 0 ? HVD_WILL_WAIT : 0);
      if (code != HVD_OK) {
        report_handle(*call);
        good = failed(code, "submit " + describe(call->work()));
      } else if (mode == 0) {
        good = finish(*call, mode);
      }
    }
    for (auto& call : calls) {
      if (mode != 0 && call->submitted()) good = finish(*call, mode) && good;
    }
    if (interrupted) {
      say("interrupted");
      hvd_shutdown();  // ends operations in flight before their tensors are freed
      return false;
    }
    return good;
  }

  bool finish(const Call& call, int64_t mode) {
    const hvd_code code = wait(call, mode);
    if (interrupted && code == HVD_TIMEOUT) return false;
    if (code != HVD_OK) return failed(code, describe(call.work()));
    ++operations_;
    check(call);
    return true;
  }

  // Training steps: the same tensors in each step, as in a model.
  bool train() {
    if (options_.train == 0) return true;
    std::vector<Work> parameters;
    for (int i = 0; i < 4; ++i) parameters.push_back(model_work(HVD_BROADCAST, "parameter", i));
    if (!together(parameters, 0)) return false;
    for (int64_t step = 0; step < options_.train; ++step) {
      std::vector<Work> gradients;
      for (int i = 0; i < 8; ++i) gradients.push_back(model_work(HVD_ALLREDUCE, "gradient", i));
      renew(gradients, step);
      if (!together(gradients, 2)) return false;
      std::vector<Work> rest = {model_work(HVD_ALLGATHER, "metric", 0)};
      for (size_t s = 0; s < sets_.size(); ++s) {
        rest.push_back(model_work(HVD_ALLREDUCE, "of a set", 1));
        rest.back().set = int(s) + 1;
        rest.back().members = sets_[s];
        rest.back().parts[0].rows.resize(sets_[s].size());
      }
      rest.push_back(global(HVD_BARRIER, HVD_SUM));
      renew(rest, step);
      if (!together(rest, 0)) return false;
    }
    return !options_.dynamic || use_dynamic_set();
  }

  // Changes the values of the same tensors, so that a result of an earlier step is detected as
  // wrong.
  static void renew(std::vector<Work>& works, int64_t step) {
    for (Work& work : works) {
      for (Part& part : work.parts) part.salt += step % 61;
    }
  }

  Work model_work(hvd_collective collective, const std::string& name, int index) const {
    Dice shared{uint64_t(index)};
    Work work = global(collective, HVD_AVERAGE);
    work.parts.push_back(
        part(name + std::to_string(index), int64_t{10} << (2 * (index % 6)), 2, shared));
    return work;
  }

  bool use_dynamic_set() {
    if (size_ == 1) return true;
    const int32_t last = size_ - 1;
    int32_t id = 0;
    hvd_code code = hvd_add_process_set({&last, 1}, &id);
    if (code != HVD_OK) return failed(code, "add_process_set");
    Work work = model_work(HVD_ALLREDUCE, "of a new set", 2);
    work.set = id;
    work.members = {last};
    work.parts[0].rows.resize(1);
    if (!together({work}, 0)) return false;
    code = hvd_remove_process_set(id, nullptr);
    return code == HVD_OK || failed(code, "remove_process_set");
  }

  bool batches(int64_t count) {
    for (int64_t batch = 0; count == 0 || batch < count; ++batch) {
      ++batches_;
      if (options_.starve >= 0 && batch == options_.large && !large_operation()) return false;
      // One batch in three is the same again, with the same names: the cache holds it.
      const bool model = batch % 3 == 2;
      Dice shared(uint64_t(options_.seed * 1'000'003 + (model ? 0 : batch + 1)));
      std::vector<Work> works;
      std::set<int> barriers;
      const std::string names = model ? "model" : shared.one_in(2) ? "t" : std::to_string(batch);
      for (int64_t i = 1 + shared.roll(12); i > 0; --i) {
        works.push_back(random_work(names + "." + std::to_string(i), shared, barriers));
      }
      if (model) renew(works, batch);
      if (own_.one_in(10)) std::this_thread::sleep_for(std::chrono::milliseconds(own_.roll(6)));
      if (!together(works, own_.roll(3))) return false;
      if (options_.dynamic && shared.one_in(4) && !use_dynamic_set()) return false;
    }
    return end();
  }

  // All ranks join, so that no rank leaves while another still works.
  bool end() {
    hvd_operation* joined = nullptr;
    hvd_code code = hvd_join(&joined);
    if (code != HVD_OK) return failed(code, "join");
    do {
      code = hvd_wait(joined, options_.slices ? 0.05 : -1);
      if (code == HVD_TIMEOUT && !options_.slices && !hvd_poll(joined)) {
        say("early join");
        std::_Exit(kEarly);
      }
    } while (code == HVD_TIMEOUT && !hvd_poll(joined) && !interrupted);
    const bool good = code == HVD_OK || interrupted || failed(code, "join");
    hvd_release(joined);
    if (!good) return false;
    if (interrupted) say("interrupted");
    hvd_shutdown();
    return true;
  }

  Options options_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<std::vector<int32_t>> sets_;  // set i + 1 of the library
  Dice own_{1};                             // this rank's own choices
  std::string error_;
  int64_t batches_ = 0;
  int64_t operations_ = 0;
};

Options parse(int argc, char** argv) {
  std::map<std::string, int64_t> numbers;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const size_t equals = word.find('=');
    if (equals == std::string::npos) {
      std::fprintf(stderr, "%s: not <name>=<number>\n", argv[i]);
      std::exit(2);
    }
    numbers[word.substr(0, equals)] = std::atoll(word.c_str() + equals + 1);
  }
  Options options;
  const auto take = [&](const char* name, auto& field) {
    const auto found = numbers.find(name);
    if (found == numbers.end()) return;
    field = static_cast<std::decay_t<decltype(field)>>(found->second);
    numbers.erase(found);
  };
  take("seed", options.seed);
  take("batches", options.batches);
  take("train", options.train);
  take("slices", options.slices);
  take("abrupt", options.abrupt);
  take("dynamic", options.dynamic);
  take("starve", options.starve);
  take("large", options.large);
  take("room", options.room);
  for (const auto& [name, number] : numbers) {
    std::fprintf(stderr, "%s: there is no such option\n", name.c_str());
    std::exit(2);
  }
  return options;
}

}  // namespace
}  // namespace chaos

int main(int argc, char** argv) {
  std::signal(SIGINT, [](int) { chaos::interrupted = 1; });
  return chaos::Rank(chaos::parse(argc, argv)).run();
}
