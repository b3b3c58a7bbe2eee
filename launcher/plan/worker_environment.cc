// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/worker_environment.h"

#include <string_view>

namespace hvd::launcher {
namespace {

constexpr std::string_view kSecret = "_HOROVOD_SECRET_KEY";

// The names that Horovod 0.28 does not export either.
bool is_host_specific(std::string_view name) {
  return name.starts_with("BASH_FUNC_") || name == "OLDPWD" ||
         name.ends_with("CUDA_VISIBLE_DEVICES") || name == kSecret;
}

}  // namespace

Environment without_slot_variables(const Environment& own) {
  const Environment place = slot_environment(Slot{});
  Environment result = own;
  std::erase_if(result, [&](const auto& entry) {
    const std::string& name = entry.first;
    return place.contains(name) || name == "HOROVOD_RENDEZVOUS" || name == "HOROVOD_ELASTIC" ||
           name.starts_with("HOROVOD_GLOO_RENDEZVOUS_") || name == kSecret;
  });
  return result;
}

Environment exported_environment(const Environment& own) {
  Environment result = without_slot_variables(own);
  std::erase_if(result, [](const auto& entry) { return is_host_specific(entry.first); });
  return result;
}

void add_flag_variables(const Options& options, Environment& environment) {
  for (const Flag& flag : flags()) {
    if (flag.extras.variable.empty() || !has_effect(flag, options)) continue;
    if (const auto text = value_text(flag, options)) {
      environment[std::string(flag.extras.variable)] = *text;
    }
  }
  // Python otherwise buffers output to a pipe, so lines of a rank would appear late.
  environment.insert_or_assign("PYTHONUNBUFFERED", std::string("1"));
}

Environment slot_environment(const Slot& slot) {
  return {{"HOROVOD_RANK", std::to_string(slot.rank)},
          {"HOROVOD_SIZE", std::to_string(slot.size)},
          {"HOROVOD_LOCAL_RANK", std::to_string(slot.local_rank)},
          {"HOROVOD_LOCAL_SIZE", std::to_string(slot.local_size)},
          {"HOROVOD_CROSS_RANK", std::to_string(slot.cross_rank)},
          {"HOROVOD_CROSS_SIZE", std::to_string(slot.cross_size)},
          {"HOROVOD_HOSTNAME", slot.host}};
}

}  // namespace hvd::launcher
