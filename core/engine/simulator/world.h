// SPDX-License-Identifier: Apache-2.0
// The ranks of one scenario, in one thread. Everything that takes time, messages and actions of
// ranks, is an event at a random time. Messages between two ranks stay in order; all other events
// may occur in any order. A rank does what an engine does: it submits, sends messages to its
// neighbours, takes plans at once and carries them out later.
//
// Liveness: when no event is left, everything that was submitted has been answered, or has failed
// because the job was ended or a rank died; and the negotiators hold no state of it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/negotiator.h"
#include "engine/simulator/judge.h"
#include "engine/simulator/random.h"
#include "engine/simulator/scenario.h"

namespace hvd::simulator {

class World {
 public:
  explicit World(uint64_t seed);
  // Runs until no event is left. The error names the property that was violated.
  Status run();

  // Keeps the last events as text, to explain an error.
  void keep_trace() { traces_ = true; }
  const std::deque<std::string>& trace() const { return trace_; }
  const Scenario& scenario() const { return scenario_; }

 private:
  enum class Kind : uint8_t {
    kAct,       // a member continues its program
    kSpeak,     // a member decides if it is the coordinator, and sends its messages
    kCarryOut,  // carries out the next plan
    kUp,        // a message arrives at the parent of a member
    kDown,      // a message of its parent arrives at a member
    kShutdown,  // a rank ends the job
    kDeath,     // a rank dies
    kFailure,   // another rank notices that
  };
  struct Event {
    uint64_t time;
    uint64_t order;  // of events at the same time
    Kind kind;
    int set;     // -1 for events of a rank of the job
    int member;  // or the rank
    bool operator>(const Event& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  struct Edge {
    std::deque<ByteBuffer> messages;
    uint64_t last = 0;  // arrival
  };
  // A rank within a set.
  struct Member {
    std::unique_ptr<Negotiator> negotiator;
    int parent = -1;
    Edge up;
    Edge down;
    std::deque<Plan> plans;  // not carried out yet
    // Its program.
    Round round;
    std::vector<Submission> todo;  // of this round
    size_t next = 0;
    bool begun = false;   // the present round
    bool ending = false;  // it has a plan that ends the job
    bool act_is_due = false;
    bool speak_is_due = false;
  };
  struct Set {
    explicit Set(const SetScenario& what) : scenario(what), judge(what) {}
    const SetScenario& scenario;
    Judge judge;
    std::vector<Member> members;
  };
  struct Rank {
    int pace = 1;
    int submissions = 0;  // to the set of all ranks
    bool submits = true;
    bool ended = false;
  };

  void schedule(Kind kind, int set, int member, uint64_t time);
  uint64_t later(int rank);  // when a message of this rank arrives, or its next action is due
  Rank& rank_of(int set, int member) { return ranks_[sets_[set].scenario.members[member]]; }

  Status happen(const Event& event);
  void act(int set, int member);
  // One step of a member's program; false when it is held up or at its end.
  bool advance(int set, int member);
  static bool is_at_end(const Set& set, const Member& member);
  void submit(int set, int member, const Submission& submission);
  void consider_endings(int rank);

  void speak_soon(int set, int member);
  Status speak(int set, int member);
  Status decide(int set, int member);
  void send(int set, int from, int to, ConstBytes message);
  Status receive(int set, int to, int from, Edge& edge);
  // A plan changes the cache of a member when it arrives, not when it is carried out.
  void take_plan(int set, int member, Plan plan);
  Status carry_out(int set, int member);
  void end_job(int rank);
  void die(int rank);

  Status check_end() const;
  Status check_settled(const Set& set, int member) const;
  void note(int set, int member, const std::string& text);

  const Scenario scenario_;
  Random random_;
  uint64_t now_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::deque<Set> sets_;
  std::vector<Rank> ranks_;
  bool a_rank_died_ = false;
  bool is_ended_ = false;  // the job, by a rank

  bool traces_ = false;
  std::deque<std::string> trace_;
};

}  // namespace hvd::simulator
