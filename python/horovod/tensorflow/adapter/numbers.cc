#include "numbers.h"

#include <mutex>
#include <unordered_map>

namespace hvd::tensorflow {
namespace {

struct Numbers {
  std::mutex mutex;
  std::unordered_map<int32_t, uint64_t> next;
};

// Never destroyed: TensorFlow's threads may outlive main().
Numbers& numbers() {
  static auto* const kInstance = new Numbers;
  return *kInstance;
}

}  // namespace

uint64_t take_number(int32_t process_set) {
  const std::lock_guard lock(numbers().mutex);
  return numbers().next[process_set]++;
}

void give_back(int32_t process_set, uint64_t number) {
  const std::lock_guard lock(numbers().mutex);
  uint64_t& next = numbers().next[process_set];
  if (next == number + 1) next = number;
}

void forget_numbers(int32_t process_set) {
  const std::lock_guard lock(numbers().mutex);
  numbers().next.erase(process_set);
}

void forget_all_numbers() {
  const std::lock_guard lock(numbers().mutex);
  numbers().next.clear();
}

}  // namespace hvd::tensorflow
