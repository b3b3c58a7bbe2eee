// SPDX-License-Identifier: Apache-2.0
// horovodrun: makes a plan from its arguments and executes it.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "launcher/agent.h"
#include "launcher/doctor.h"
#include "launcher/messages.h"
#include "launcher/plan/plan.h"
#include "launcher/processes.h"
#include "launcher/run.h"
#include "launcher/run_program.h"

namespace hvd::launcher {
namespace {

int execute(const PrintText& print) { return print_output(print.text); }
int execute(const Doctor& doctor) { return run_doctor(doctor); }
int execute(const Launch& launch) { return run(launch); }
int execute(const ProgramLaunch& program) { return run_program(program); }
int execute(const ElasticLaunch& /*elastic*/) {
  return print_error("elastic jobs (--min-np, --host-discovery-script) cannot be started yet",
                     kFailure);
}

// Errors in arguments, files and settings are found here, before anything is started.
int start(const std::vector<std::string>& arguments) {
  const auto plan = make_plan(arguments, this_system());
  if (!plan.is_ok()) return print_error(plan.status().message(), kUsageError);
  configure_log(plan->log_level, plan->log_hide_time);
  for (const std::string& warning : plan->warnings) (void)print_error(warning, 0);
  return std::visit([](const auto& action) { return execute(action); }, plan->action);
}

}  // namespace
}  // namespace hvd::launcher

// Exceptions here mean that memory or threads are exhausted. Agents and ranks that were started end
// by themselves, because the connection to the launcher closes with this process.
int main(int argc, char** argv) try {
  hvd::launcher::repair_inherited_state();
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  // Internal: the launcher starts this on each host.
  if (!arguments.empty() && arguments[0] == "--agent") {
    return hvd::launcher::run_agent(arguments.size() > 1 && arguments[1] == "remote");
  }
  return hvd::launcher::start(arguments);
} catch (const std::exception& error) {
  std::fprintf(stderr, "horovodrun: %s\n", error.what());
  return hvd::launcher::kFailure;
}
