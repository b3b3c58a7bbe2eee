// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/jsrun.h"

#include <fmt/format.h>

#include "launcher/plan/assignment.h"
#include "launcher/plan/text.h"

namespace hvd::launcher {

Result<std::string> jsrun_rank_file(const std::vector<HostSlots>& hosts, int num_proc,
                                    const NodeResources& node) {
  for (const HostSlots& host : hosts) {
    if (host.slots > node.gpus) {
      return invalid_argument(
          fmt::format("{} has {} slots, but {} GPUs: jsrun starts a rank per GPU", host.name,
                      host.slots, node.gpus));
    }
  }
  HVD_TRY_ASSIGN(const auto slots, assign_slots(hosts, num_proc));
  // Logical CPUs per rank. With fewer ranks than GPUs on a host the remaining CPUs stay unused.
  const int share = node.cores * node.threads_per_core / node.gpus;
  if (share == 0) {
    return invalid_argument(fmt::format("{} cores are too few for {} GPUs: give --binding-args",
                                        node.cores, node.gpus));
  }
  // "logical": CPU numbers count hardware threads, as `share` does.
  std::string text = "overlapping_rs: allow\ncpu_index_using: logical\n";
  for (const Slot& slot : slots) {
    if (slot.local_rank == 0) text += "\n";
    const int first = slot.local_rank * share;
    text += fmt::format("rank: {}: {{ hostname: {}; cpu: {{{}-{}}} ; gpu: * ; mem: * }}\n",
                        slot.rank, slot.host, first, first + share - 1);
  }
  return text;
}

std::vector<std::string> jsrun_command(const JsrunJob& job) {
  std::vector<std::string> list = {"jsrun"};
  const auto add = [&](const std::vector<std::string>& words) {
    list.insert(list.end(), words.begin(), words.end());
  };
  // "rank file" is a placeholder at kRankFileArgument, replaced by the path.
  add(job.binding.value_or(std::vector<std::string>{"--erf_input", "rank file"}));
  if (!job.output.empty()) add({"--stdio_stdout", job.output, "--stdio_stderr", job.output});
  if (!job.mpi_arguments.empty()) add({"--smpiargs", join(job.mpi_arguments, " ")});
  add(job.command);
  return list;
}

}  // namespace hvd::launcher
