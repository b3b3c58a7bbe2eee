// SPDX-License-Identifier: Apache-2.0
// What happens in the world of one seed: its ranks and process sets, what every rank submits in
// which order, which ranks join, end the job or die. World decides when it happens.
//
// Tensors are not stored: what a rank submits is computed from the seed when it is needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/request.h"

namespace hvd::simulator {

// One round of submissions of a set. The closing rounds come after the last epoch.
struct Round {
  int epoch = 0;
  int step = 0;
};

// Tensors that a rank submits together.
struct Submission {
  std::vector<int> names;  // numbers of names
  uint32_t group = 0;
};

struct SetScenario {
  uint64_t seed = 0;
  std::vector<int> members;  // ranks of the job, ascending
  std::vector<int> host_of;  // by rank of the set
  int names = 0;
  int epochs = 1;
  int steps = 0;           // of an epoch; with joins, some ranks do fewer
  bool joins = false;      // every rank joins at the end of each epoch
  bool reductions = true;  // only reductions
  bool groups = false;
  bool groups_matter = false;
  bool same_order = false;    // ranks submit in the same order
  bool waits = false;         // ranks wait for all results of a step before the next
  int change_every = 1;       // rounds after which shapes may change everywhere
  int mismatch_percent = 0;   // of the tensors of a round: they differ on some ranks
  size_t cache_capacity = 0;  // at the start
  int tunables_percent = 0;   // of plans that change the capacity

  int size() const { return static_cast<int>(members.size()); }
  std::string name_of(int name) const;
  // The tensors that all ranks submit last, one after the other. All have this name, which no other
  // tensor has.
  int closing_name() const { return names; }
  static constexpr int kClosingRounds = 2;

  int steps_of(int member, int epoch) const;
  // What a member submits in a round, in its order.
  std::vector<Submission> submissions(int member, Round round) const;
  Request request(int member, int name, Round round) const;

 private:
  Request usual_request(int name, Round round) const;
  bool differs(int member, int name, Round round) const;
};

struct Scenario {
  uint64_t seed = 0;
  int ranks = 0;
  std::vector<SetScenario> sets;  // the first has all ranks

  // Times have no unit.
  int longest_delay = 1;    // of a message, or until the next action of a rank
  int slow_percent = 0;     // of the ranks: they need ten times as long
  int at_once_percent = 0;  // of the messages: they are sent at once, not together with later ones
  int longest_burst = 1;    // submissions without a pause
  static constexpr int kNone = -1;
  struct Ending {
    int rank = kNone;
    int after = 0;  // submissions of this rank
  };
  Ending shutdown;
  std::vector<Ending> deaths;

  static Scenario of(uint64_t seed);
  std::string to_string() const;
};

}  // namespace hvd::simulator
