// SPDX-License-Identifier: Apache-2.0
// Records what happened in one process set and checks the plans against it.
//
// Safety: every plan of the coordinator contains exactly the tensors that all ranks have asked for.
// Every rank carries out the same plans in the same order, and has the tensors that they name
// unless it has joined.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "engine/plan.h"
#include "engine/request.h"
#include "engine/simulator/scenario.h"

namespace hvd::simulator {

class Judge {
 public:
  explicit Judge(const SetScenario& set);

  // Events, in the order in which they happen.

  // Tensors that a rank submits together have the same `batch`, which is equal on all ranks.
  void submitted(int member, int name, Request request, uint32_t group, uint64_t batch);
  void joined(int member);
  // The coordinator has made a plan; `knew_of_joins`: it had received a join by then.
  Status decided(const Plan& plan, bool knew_of_joins);
  Status carried_out(int member, const Plan& plan);

  // Facts.

  bool is_waiting(int member, int name) const {
    return tensor(member, name).state != Tensor::State::kIdle;
  }
  bool is_waiting(int member) const { return members_[member].waiting > 0; }
  bool has_joined(int member) const { return members_[member].joins > members_[member].released; }
  // Whether a rank has carried out all plans.
  bool is_up_to_date(int member) const { return members_[member].plans == plans_.size(); }
  size_t plans() const { return plans_.size(); }
  // The tensors that a rank waits for, for messages.
  std::string waiting_list(int member) const;

 private:
  struct Tensor {
    enum class State : uint8_t { kIdle, kSubmitted, kDecided } state = State::kIdle;
    uint32_t group = 0;
    uint64_t batch = 0;
    Request request;
  };
  struct Member {
    size_t plans = 0;     // carried out
    size_t joins = 0;     // requested so far
    size_t released = 0;  // joins that a plan has ended
    int waiting = 0;      // tensors without an answer
  };

  Tensor& tensor(int member, int name) { return tensors_[member * names_ + name]; }
  const Tensor& tensor(int member, int name) const { return tensors_[member * names_ + name]; }
  bool joined_since(int member) const { return members_[member].joins > joins_decided_; }

  // `havers` are the members that wait for this tensor.
  Status check(const Response& response, int name, const std::vector<int>& havers,
               bool knew_of_joins) const;
  Status check_mismatch(const Status& error, int name) const;
  Status check_join_error(const Status& error) const;
  Status check_agreed(const Response& response, int name, const std::vector<int>& havers) const;
  // Tensors that were submitted together are answered together.
  Status check_groups(const Plan& plan) const;

  const SetScenario& set_;
  const int names_;
  std::unordered_map<std::string, int> number_of_;
  std::vector<Tensor> tensors_;  // by member, then by name
  std::vector<Member> members_;
  std::vector<Plan> plans_;  // of the coordinator
  size_t joins_decided_ = 0;
};

}  // namespace hvd::simulator
