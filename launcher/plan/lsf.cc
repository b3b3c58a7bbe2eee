// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/lsf.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>

#include "launcher/plan/text.h"

namespace hvd::launcher {
namespace {

constexpr int kMaxPerHost = 1 << 16;  // slots, cores or GPUs of a host
// Where CSM is installed by default; it is usually not in PATH.
constexpr char kQueryFolder[] = "/opt/ibm/csm/bin/";

// The first value of that key at any depth: the output for several nodes is a list of records.
std::optional<YAML::Node> find_key(const YAML::Node& node, const std::string& key) {
  if (!node.IsMap() && !node.IsSequence()) return std::nullopt;
  for (const auto& entry : node) {
    if (node.IsMap() && entry.first.Scalar() == key) return YAML::Node(entry.second);
    const YAML::Node& below = node.IsMap() ? entry.second : static_cast<const YAML::Node&>(entry);
    if (auto found = find_key(below, key)) return found;
  }
  return std::nullopt;
}

Result<std::optional<YAML::Node>> find_in_answer(const std::string& answer,
                                                 const std::string& key) {
  try {
    return find_key(YAML::Load(answer), key);
  } catch (const YAML::Exception& error) {
    return invalid_argument(fmt::format("the answer is not YAML: {}", error.msg));
  }
}

Result<int> number_in_answer(const std::string& answer, const std::string& key) {
  HVD_TRY_ASSIGN(const auto node, find_in_answer(answer, key));
  const auto number = node && node->IsScalar() ? parse_integer(node->Scalar()) : std::nullopt;
  if (!number || *number < 0 || *number > kMaxPerHost) {
    return invalid_argument(fmt::format("the answer has no number {}", key));
  }
  return static_cast<int>(*number);
}

// Runs the program from PATH, or from its default directory.
Result<std::string> ask(const SystemInfo& system, std::vector<std::string> query) {
  auto answer = system.output_of(query);
  if (answer.is_ok() || answer.status().code() != StatusCode::kNotFound) return answer;
  query[0] = kQueryFolder + query[0];
  return system.output_of(query);
}

// Assumes that all hosts of the cluster are alike, including the host that horovodrun runs on.
int threads_per_core(const SystemInfo& system) {
  const auto answer = system.output_of({"lscpu"});
  if (!answer.is_ok()) return 1;
  for (const std::string_view line : split(*answer, '\n')) {
    constexpr std::string_view kKey = "Thread(s) per core:";
    if (!line.starts_with(kKey)) continue;
    const auto number = parse_integer(trimmed(line.substr(kKey.size())));
    if (number && *number >= 1 && *number <= 64) return static_cast<int>(*number);
  }
  return 1;
}

// Asks for the first node only: all nodes of an allocation are alike.
Result<Allocation> ask_csm(const SystemInfo& system, const std::string& id) {
  HVD_TRY_ASSIGN(const std::string allocation_answer,
                 ask(system, {"csm_allocation_query", "-a", id}));
  HVD_TRY_ASSIGN(const auto names, parse_compute_nodes(allocation_answer));
  HVD_TRY_ASSIGN(const std::string node_answer,
                 ask(system, {"csm_node_attributes_query", "-n", names.front()}));
  HVD_TRY_ASSIGN(NodeResources node, parse_node_attributes(node_answer));
  node.threads_per_core = threads_per_core(system);
  if (node.gpus == 0) {
    return invalid_argument(fmt::format("{} has no GPU: give hosts with -H", names.front()));
  }
  Allocation allocation{.scheduler = "LSF", .node = node};
  for (const std::string& name : names) add_host(allocation.hosts, name, node.gpus);
  return allocation;
}

// The file lists each host once per slot.
Result<std::vector<HostSlots>> hosts_in_file(const std::string& path) {
  HVD_TRY_ASSIGN(const std::string text, read_file(path));
  std::vector<HostSlots> hosts;
  for (const std::string_view name : words(text)) {
    if (!is_host_name(name)) {
      return invalid_argument(fmt::format("{}: \"{}\" is no host", path, name));
    }
    add_host(hosts, name, 1);
  }
  return hosts;
}

// "h1 4 h2 4".
Result<std::vector<HostSlots>> hosts_in_pairs(const std::string& text) {
  std::vector<HostSlots> hosts;
  const auto parts = words(text);
  for (size_t i = 0; i < parts.size(); i += 2) {
    const int64_t slots = i + 1 < parts.size() ? parse_integer(parts[i + 1]).value_or(-1) : -1;
    if (!is_host_name(parts[i]) || slots < 0 || slots > kMaxPerHost) {
      return invalid_argument(
          fmt::format("\"{}\": accepted is hosts and slots, as in h1 4 h2 4", text));
    }
    add_host(hosts, parts[i], static_cast<int>(slots));
  }
  return hosts;
}

}  // namespace

bool is_under_lsf(const SystemInfo& system) { return !system.variable("LSB_JOBID").empty(); }

Result<std::vector<std::string>> parse_compute_nodes(const std::string& answer) {
  HVD_TRY_ASSIGN(const auto list, find_in_answer(answer, "compute_nodes"));
  std::vector<std::string> names;
  for (const auto& entry : list.value_or(YAML::Node())) {
    if (!entry.IsScalar() || !is_host_name(entry.Scalar())) {
      return invalid_argument("the answer lists something else than hosts in compute_nodes");
    }
    names.push_back(entry.Scalar());
  }
  if (names.empty()) return invalid_argument("the answer lists no compute_nodes");
  return names;
}

Result<NodeResources> parse_node_attributes(const std::string& answer) {
  NodeResources node;
  HVD_TRY_ASSIGN(node.cores, number_in_answer(answer, "discovered_cores"));
  HVD_TRY_ASSIGN(node.gpus, number_in_answer(answer, "discovered_gpus"));
  return node;
}

Result<Allocation> lsf_allocation(const SystemInfo& system) {
  Allocation allocation{.scheduler = "LSF"};
  if (const std::string id = system.variable("CSM_ALLOCATION_ID"); !id.empty()) {
    auto answer = ask_csm(system, id);
    if (!answer.is_ok()) return answer.status().with_context("asking for allocation " + id);
    allocation = *std::move(answer);
  } else if (const std::string file = system.variable("LSB_DJOB_HOSTFILE"); !file.empty()) {
    auto hosts = hosts_in_file(file);
    if (!hosts.is_ok()) return hosts.status().with_context("LSB_DJOB_HOSTFILE");
    allocation.hosts = *std::move(hosts);
  } else {
    auto hosts = hosts_in_pairs(system.variable("LSB_MCPU_HOSTS"));
    if (!hosts.is_ok()) return hosts.status().with_context("LSB_MCPU_HOSTS");
    allocation.hosts = *std::move(hosts);
  }
  if (allocation.hosts.empty()) {
    return invalid_argument(
        "LSB_JOBID is set, but LSB_DJOB_HOSTFILE and LSB_MCPU_HOSTS contain no hosts: give "
        "them with -H");
  }
  allocation.num_proc = slots_of(allocation.hosts);
  return allocation;
}

}  // namespace hvd::launcher
