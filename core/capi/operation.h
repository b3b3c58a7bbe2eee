// SPDX-License-Identifier: Apache-2.0
// The caller's handle and the engine's operation, which are one object.
#pragma once

#include <memory>
#include <utility>

#include "base/fork_generation.h"
#include "engine/job.h"
#include "engine/operation.h"

// It keeps neither the job nor the engine alive, so that a forgotten handle does not keep threads;
// once they are gone it is done.
//
// One that has been used waits for the next submission (Process::put_aside), with the memory of its
// name, its shape and its lists, and mostly for the same engine: a step of 1,000 tensors allocates
// nothing, where malloc and free took 9 % of its samples.
struct hvd_operation final : hvd::Operation {  // NOLINT(readability-identifier-naming): C's name
 public:
  // Ready to be submitted with its present tasks.
  hvd::Operation::Ref begin(Allocate allocate_by, Done call_when_done) {
    fork_generation = {};
    prepare(std::move(allocate_by), std::move(call_when_done));
    return hvd::Operation::Ref(this);
  }

  std::weak_ptr<hvd::Job> job;
  std::weak_ptr<hvd::Engine> engine;
  hvd::ForkGeneration fork_generation;

 private:
  void end() override;
};
