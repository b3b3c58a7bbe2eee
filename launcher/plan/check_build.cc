// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/check_build.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "launcher/plan/text.h"

namespace hvd::launcher {
namespace {

// Finds packages without importing them: each import would take seconds.
constexpr char kFindPackages[] =
    "import importlib.util as u\n"
    "print(*[m for m in ('tensorflow', 'torch', 'mxnet') if u.find_spec(m)])";

// One line of a block: "[X] name" or "[ ] name".
struct Box {
  bool checked;
  const char* name;
};

std::string block(std::string_view title, const std::vector<Box>& boxes) {
  std::string text = fmt::format("{}:\n", title);
  for (const Box& box : boxes)
    text += fmt::format("    [{}] {}\n", box.checked ? 'X' : ' ', box.name);
  return text;
}

}  // namespace

std::string version() { return HVD_VERSION; }

BuildFacts find_build_facts(const SystemInfo& system) {
  const auto answer = run_python(system, kFindPackages);
  const std::string packages = answer.is_ok() ? *answer : "";
  const auto found = words(packages);
  const auto has = [&](std::string_view name) {
    return std::find(found.begin(), found.end(), name) != found.end();
  };
  BuildFacts facts;
  facts.tensorflow = has("tensorflow");
  facts.torch = has("torch");
  facts.mxnet = has("mxnet");
  const auto mpirun = system.output_of({"mpirun", "--version"});
  facts.mpi = mpirun.is_ok();
  // Loaded and closed again; no symbol of it is used.
  facts.nccl = system.has_library("libnccl.so.2");
  return facts;
}

// DDL and CCL are never available; they are listed because scripts expect the lines of Horovod
// 0.28.
std::string check_build_text(const BuildFacts& facts, bool verbose) {
  return fmt::format("{}Horovod v{}:\n\n", verbose ? "\n" : "", version()) +
         block(
             "Available Frameworks",
             {{facts.tensorflow, "TensorFlow"}, {facts.torch, "PyTorch"}, {facts.mxnet, "MXNet"}}) +
         "\n" + block("Available Controllers", {{facts.mpi, "MPI"}, {true, "Gloo"}}) + "\n" +
         block("Available Tensor Operations", {{facts.nccl, "NCCL"},
                                               {false, "DDL"},
                                               {false, "CCL"},
                                               {facts.mpi, "MPI"},
                                               {true, "Gloo"}});
}

}  // namespace hvd::launcher
