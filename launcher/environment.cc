// SPDX-License-Identifier: Apache-2.0
#include "launcher/environment.h"

#include <fmt/format.h>

#include <map>

namespace hvd::launcher {
namespace {

using Variables = std::map<std::string, std::string>;

// Entries without "=" are ignored; execve() permits them, but they name no variable.
void apply_settings(Variables& variables, const std::vector<std::string>& settings) {
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) continue;
    variables[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
}

void set_slot_variables(Variables& variables, const Slot& slot) {
  variables["HOROVOD_RANK"] = std::to_string(slot.rank);
  variables["HOROVOD_SIZE"] = std::to_string(slot.size);
  variables["HOROVOD_LOCAL_RANK"] = std::to_string(slot.local_rank);
  variables["HOROVOD_LOCAL_SIZE"] = std::to_string(slot.local_size);
  variables["HOROVOD_CROSS_RANK"] = std::to_string(slot.cross_rank);
  variables["HOROVOD_CROSS_SIZE"] = std::to_string(slot.cross_size);
  variables["HOROVOD_HOSTNAME"] = slot.host;
}

// `wins`: the interfaces are from the command line and override the user's variables. The loopback
// interface of a job on one host is only a default.
void set_interfaces(Variables& variables, const std::vector<std::string>& interfaces, bool wins) {
  if (interfaces.empty()) return;
  const std::string list = fmt::format("{}", fmt::join(interfaces, ","));
  // HOROVOD_GLOO_IFACE is the older name of the setting; Horovod 0.28 sets it to one interface.
  const auto set = [&](const char* name, const std::string& value) {
    if (wins) {
      variables[name] = value;
    } else {
      variables.emplace(name, value);
    }
  };
  if (wins || variables.count("HOROVOD_GLOO_IFACE") == 0) set("HOROVOD_NETWORK_INTERFACES", list);
  set("HOROVOD_GLOO_IFACE", interfaces.front());
  set("NCCL_SOCKET_IFNAME", list);
}

}  // namespace

std::vector<std::string> rank_environment(const std::vector<std::string>& own,
                                          const StartRanks& job, const Slot& slot,
                                          const Endpoint& rendezvous,
                                          const std::vector<std::string>& interfaces) {
  Variables variables;
  apply_settings(variables, own);
  variables.erase("HOROVOD_ELASTIC");  // of an elastic job, if one of its ranks started this job
  apply_settings(variables, job.environment);
  // Python otherwise writes to a pipe in blocks of 8 KiB, so output would appear late.
  variables.emplace("PYTHONUNBUFFERED", "1");
  variables.emplace("HOROVOD_CONTROLLER", "gloo");
  variables.emplace("HOROVOD_CPU_OPERATIONS", "gloo");
  set_slot_variables(variables, slot);
  set_interfaces(variables, interfaces, !job.interfaces.empty());
  variables["HOROVOD_RENDEZVOUS"] = rendezvous.to_string();
  variables["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = rendezvous.host();
  variables["HOROVOD_GLOO_RENDEZVOUS_PORT"] = std::to_string(rendezvous.port());
  // The launcher has decided whether the rendezvous server uses TLS; a variable of this host must
  // not contradict it.
  if (job.tls || variables.count("HOROVOD_TLS") > 0)
    variables["HOROVOD_TLS"] = std::to_string(int{job.tls});
  variables["_HOROVOD_SECRET_KEY"] = job.secret.text();
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

}  // namespace hvd::launcher
