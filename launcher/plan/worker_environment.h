// SPDX-License-Identifier: Apache-2.0
// What ranks find in their environment: the user's own variables, what flags have set, and their
// place in the job.
#pragma once

#include "launcher/launch.h"
#include "launcher/plan/flags.h"
#include "launcher/plan/system_info.h"

namespace hvd::launcher {

// `own` without the place in another job, in case a rank of one has started horovodrun.
Environment without_slot_variables(const Environment& own);

// That, without what means something on this host or in this process only: shell functions, the
// previous folder, visible GPUs, the secret.
Environment exported_environment(const Environment& own);

// Adds the variables of the flags. One that is not set adds nothing, so that what the user has in
// the environment holds.
void add_flag_variables(const Options& options, Environment& environment);

// Where one rank stands.
Environment slot_environment(const Slot& slot);

}  // namespace hvd::launcher
