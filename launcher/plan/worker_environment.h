// SPDX-License-Identifier: Apache-2.0
// The parts of the environment of ranks: the user's variables, the variables of flags, and the
// variables of one slot. Pure.
#pragma once

#include "launcher/launch.h"
#include "launcher/plan/flags.h"
#include "launcher/plan/system_info.h"

namespace hvd::launcher {

// `own` (the environment of horovodrun) without the variables of a rank and of a rendezvous server:
// a rank of another job may have started horovodrun, and the values of that job are wrong here.
Environment without_slot_variables(const Environment& own);

// The same, also without variables that are valid on this host or in this process only: shell
// functions, OLDPWD, *CUDA_VISIBLE_DEVICES, the secret.
Environment exported_environment(const Environment& own);

// Adds the variables of the flags, and PYTHONUNBUFFERED. A flag that is not set adds nothing, so
// that the user's environment keeps its value.
void add_flag_variables(const Options& options, Environment& environment);

// HOROVOD_RANK, HOROVOD_SIZE and the other variables of one slot.
Environment slot_environment(const Slot& slot);

}  // namespace hvd::launcher
