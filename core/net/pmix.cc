// SPDX-License-Identifier: Apache-2.0
#include "net/pmix.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "base/mutex.h"
#include "net/fd.h"
#include "net/retry_pauses.h"

namespace hvd {
namespace {

// The part of the binary interface of PMIx that we use. It is the same in versions 2 to 5.
constexpr int kSuccess = 0;
constexpr int kNotFound = -46;
constexpr uint8_t kGlobalScope = 3;
constexpr uint16_t kStringType = 3;

struct Proc {
  std::array<char, 256> job{};
  uint32_t rank = 0;
};

struct Value {
  uint16_t type = 0;
  union {
    char* text;
    std::array<std::byte, 64> room;  // at least as large as in any version
  } data{};
};

using Heard = void (*)(int code, Value* value, void* context);

constexpr char kLibrary[] = "libpmix.so.2";

// The path of the library that the launcher itself uses, from the memory map of its process. MPI of
// the same installation will use that file too, and cannot be loaded together with another version,
// which the system may have as well. Empty if it is not found: the launcher may contain PMIx.
std::string library_of_launcher() {
  constexpr int kShells = 3;  // most processes between the launcher and this one
  for (pid_t pid = ::getppid(), level = 0; pid > 1 && level <= kShells; ++level) {
    std::ifstream maps(fmt::format("/proc/{}/maps", pid));
    for (std::string line; std::getline(maps, line);) {
      const size_t path = line.find('/');
      if (path != std::string::npos && line.find("/libpmix.so.2", path) != std::string::npos)
        return line.substr(path);
    }
    std::ifstream status(fmt::format("/proc/{}/status", pid));
    pid = 0;
    for (std::string word; status >> word && pid == 0;) {
      if (word == "PPid:") status >> pid;
    }
  }
  return "";
}

struct Library {
  static bool is_loaded() { return ::dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD) != nullptr; }
  static Result<Library> open() {
    void* handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) {
      if (const std::string path = library_of_launcher(); !path.empty())
        handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (handle == nullptr) handle = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return unavailable(fmt::format("libpmix.so.2 cannot be loaded: {}", ::dlerror()));
    }
    Library library;
    const bool complete =
        find(handle, "PMIx_Init", library.init) && find(handle, "PMIx_Put", library.put) &&
        find(handle, "PMIx_Commit", library.commit) && find(handle, "PMIx_Get_nb", library.get) &&
        find(handle, "PMIx_Finalize", library.finalize);
    if (!complete) return unavailable(fmt::format("{} lacks functions of PMIx 2", kLibrary));
    return library;
  }

  int (*init)(Proc* self, const void* info, size_t count) = nullptr;
  int (*put)(uint8_t scope, const char* key, Value* value) = nullptr;
  int (*commit)() = nullptr;
  int (*get)(const Proc* who, const char* key, const void* info, size_t count, Heard heard,
             void* context) = nullptr;
  int (*finalize)(const void* info, size_t count) = nullptr;

 private:
  template <typename Function>
  static bool find(void* handle, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    return function != nullptr;
  }
};

// The answer of PMIx to one request. The library's thread fills it in, perhaps after the requesting
// thread has given up; so both hold it by shared_ptr.
struct Answer {
  Mutex mutex;
  CondVar came;
  bool is_there HVD_GUARDED_BY(mutex) = false;
  int code HVD_GUARDED_BY(mutex) = kSuccess;
  std::string word HVD_GUARDED_BY(mutex);

  static void take(int code, Value* value, void* context) {
    const std::unique_ptr<std::shared_ptr<Answer>> held(
        static_cast<std::shared_ptr<Answer>*>(context));
    Answer& answer = **held;
    MutexLock lock(answer.mutex);
    answer.is_there = true;
    answer.code = code;
    if (code == kSuccess && value != nullptr && value->type == kStringType)
      answer.word = value->data.text;
    answer.came.notify_all();
  }
};

std::atomic<Pmix*> joined{nullptr};  // never destroyed: the library's thread may run at exit

// The path of a file that exists if a rank on this host has joined. It is in the folder that Open
// MPI has for each job on each host; only the user can read that folder, and Open MPI removes it.
std::string mark_of_joined_ranks() {
  const char* folder = std::getenv("PMIX_SERVER_TMPDIR");
  const char* job = std::getenv("PMIX_NAMESPACE");
  if (folder == nullptr || job == nullptr) return "";
  return fmt::format("{}/hvd-joined-{}", folder, job);
}

// Whether the launcher itself has started this process. Programs that a rank starts inherit its
// identity in PMIx, and the launcher would attribute their actions to the rank. The launcher makes
// a rank the leader of a process group, but not of a session.
bool is_rank() { return ::getpid() == ::getpgrp() && ::getpid() != ::getsid(0); }

Status has_not_spoken(int rank) {
  return timeout_error(
      fmt::format("rank {} has not published the address of its rendezvous server", rank));
}

}  // namespace

struct Pmix::Client {
  Library library;
  Proc self;

  // One request. kNotFound if the rank has published other keys but not this one.
  Result<std::string> ask(int rank, const std::string& key, Deadline deadline) const;
};

Result<std::string> Pmix::Client::ask(int rank, const std::string& key, Deadline deadline) const {
  Proc who = self;
  who.rank = static_cast<uint32_t>(rank);
  const auto answer = std::make_shared<Answer>();
  auto held = std::make_unique<std::shared_ptr<Answer>>(answer);
  int code = library.get(&who, key.c_str(), nullptr, 0, Answer::take, held.get());
  if (code == kSuccess) {
    (void)held.release();
    MutexLock lock(answer->mutex);
    while (!answer->is_there) {
      if (!answer->came.wait(answer->mutex, deadline)) return has_not_spoken(rank);
    }
    code = answer->code;
    if (code == kSuccess && !answer->word.empty()) return answer->word;
  }
  if (code == kNotFound) return not_found(key);
  return unavailable(fmt::format("PMIx does not return the data of rank {}: error {}", rank, code));
}

bool Pmix::is_offered() { return std::getenv("PMIX_NAMESPACE") != nullptr; }

Pmix::Pmix(std::unique_ptr<Client> client) : client_(std::move(client)) {}

Result<Pmix*> Pmix::join() {
  if (Pmix* before = joined.load(); before != nullptr) {
    if (!before->fork_generation_.in_child()) return before;
    return unavailable(
        "this process was forked by a rank that has joined PMIx, so it cannot use PMIx itself; "
        "start "
        "it as a separate program, or fork before hvd.init()");
  }
  auto client = std::make_unique<Client>();
  HVD_TRY_ASSIGN(client->library, Library::open());
  // Before init: a rank that exits during it must find the file.
  const Fd file(::open(mark_of_joined_ranks().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  if (const int code = client->library.init(&client->self, nullptr, 0); code != kSuccess)
    return unavailable(fmt::format("PMIx does not start: error {}", code));
  joined = new Pmix(std::move(client));
  return joined.load();
}

void Pmix::prepare_exit() {
  static const ForkGeneration loaded_in;
  if (!is_offered()) return;
  (void)std::atexit([] {
    if (!loaded_in.in_child()) exit();
  });
}

void Pmix::exit() {
  if (joined == nullptr) {
    // A loaded library belongs to MPI, which joins and leaves by itself.
    if (::access(mark_of_joined_ranks().c_str(), F_OK) != 0 || !is_rank() || Library::is_loaded())
      return;
    if (!join().is_ok()) return;
  }
  const Pmix* pmix = joined.load();
  if (!pmix->fork_generation_.in_child()) (void)pmix->client_->library.finalize(nullptr, 0);
}

int Pmix::rank() const { return static_cast<int>(client_->self.rank); }

Status Pmix::tell(const std::string& key, std::string word) {
  Value value;
  value.type = kStringType;
  value.data.text = word.data();
  int code = client_->library.put(kGlobalScope, key.c_str(), &value);
  if (code == kSuccess) code = client_->library.commit();
  if (code != kSuccess)
    return unavailable(fmt::format("PMIx does not accept our data: error {}", code));
  return Status::ok();
}

// PMIx waits until a rank has published anything. If the rank has published other keys first (those
// of MPI), PMIx reports at once that ours is missing and offers no way to wait: so we try again.
Result<std::string> Pmix::hear(int rank, const std::string& key, Deadline deadline) {
  RetryPauses pauses(deadline);
  while (true) {
    auto word = client_->ask(rank, key, deadline);
    if (word.is_ok() || word.status().code() != StatusCode::kNotFound) return word;
    if (!pauses.pause()) return has_not_spoken(rank);
  }
}

}  // namespace hvd
