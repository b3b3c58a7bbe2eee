#include "net/pmix.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace hvd {
namespace {

// The binary interface of PMIx 2 to 5, as far as it is needed: these have not changed since.
constexpr int kSuccess = 0;
constexpr int kTimedOut = -24;
constexpr int kNotFound = -46;
// PMIx waits for the first word of a rank. For a further one, as after a shutdown, it says at once
// that there is none, and has no way to wait.
constexpr std::chrono::milliseconds kAskAgain{10};
constexpr uint8_t kGlobalScope = 3;
constexpr uint16_t kStringType = 3;
constexpr uint16_t kIntType = 6;
constexpr char kTimeoutKey[] = "pmix.timeout";

struct Proc {
  std::array<char, 256> job{};
  uint32_t rank = 0;
};

struct Value {
  uint16_t type = 0;
  union {
    char* text;
    int number;
    std::array<std::byte, 64> room;  // more than any version has
  } data{};
};

struct Info {
  std::array<char, 512> key{};
  uint32_t flags = 0;
  Value value;
};

class Library {
 public:
  static Result<Library> open() {
    void* handle = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return unavailable(fmt::format("libpmix.so.2 cannot be loaded: {}", ::dlerror()));
    }
    Library library;
    const bool complete =
        find(handle, "PMIx_Init", library.init) && find(handle, "PMIx_Put", library.put) &&
        find(handle, "PMIx_Commit", library.commit) && find(handle, "PMIx_Get", library.get) &&
        find(handle, "PMIx_Finalize", library.finalize);
    if (!complete) return unavailable("libpmix.so.2 lacks functions of PMIx 2");
    return library;
  }

  int (*init)(Proc* self, Info* info, size_t count) = nullptr;
  int (*put)(uint8_t scope, const char* key, Value* value) = nullptr;
  int (*commit)() = nullptr;
  int (*get)(const Proc* who, const char* key, const Info* info, size_t count,
             Value** value) = nullptr;
  int (*finalize)(const Info* info, size_t count) = nullptr;

 private:
  template <typename Function>
  static bool find(void* handle, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(handle, name));
    return function != nullptr;
  }
};

Status tell(const Library& pmix, const std::string& key, std::string word) {
  Value value;
  value.type = kStringType;
  value.data.text = word.data();
  int code = pmix.put(kGlobalScope, key.c_str(), &value);
  if (code == kSuccess) code = pmix.commit();
  if (code != kSuccess)
    return unavailable(fmt::format("PMIx does not take our word: error {}", code));
  return Status::ok();
}

Result<std::string> hear(const Library& pmix, const Proc& self, const std::string& key,
                         Deadline deadline) {
  Proc root = self;
  root.rank = 0;
  Info limit;
  std::copy(std::begin(kTimeoutKey), std::end(kTimeoutKey), limit.key.begin());
  limit.value.type = kIntType;
  const auto left = std::chrono::ceil<std::chrono::seconds>(deadline.remaining());
  limit.value.data.number = static_cast<int>(std::clamp<int64_t>(left.count(), 1, 86'400));
  Value* value = nullptr;
  int code = pmix.get(&root, key.c_str(), &limit, 1, &value);
  while (code == kNotFound && !deadline.expired()) {
    std::this_thread::sleep_for(kAskAgain);
    code = pmix.get(&root, key.c_str(), &limit, 1, &value);
  }
  if (code == kTimedOut || code == kNotFound)
    return timeout_error("rank 0 has not said where to meet");
  if (code != kSuccess || value == nullptr || value->type != kStringType) {
    return unavailable(fmt::format("PMIx does not say where rank 0 is: error {}", code));
  }
  std::string word = value->data.text;
  std::free(value->data.text);
  std::free(value);
  return word;
}

}  // namespace

bool started_with_pmix() { return std::getenv("PMIX_NAMESPACE") != nullptr; }

Result<std::string> share_by_pmix(const std::string& key, const std::optional<std::string>& word,
                                  Deadline deadline) {
  HVD_TRY_ASSIGN(const Library pmix, Library::open());
  Proc self;
  if (const int code = pmix.init(&self, nullptr, 0); code != kSuccess) {
    return unavailable(fmt::format("PMIx does not start: error {}", code));
  }
  Result<std::string> heard = word.value_or("");
  if (word.has_value()) {
    const Status told = tell(pmix, key, *word);
    if (!told.is_ok()) heard = told;
  } else {
    heard = hear(pmix, self, key, deadline);
  }
  (void)pmix.finalize(nullptr, 0);
  return heard;
}

}  // namespace hvd
