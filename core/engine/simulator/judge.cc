// SPDX-License-Identifier: Apache-2.0
#include "engine/simulator/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace hvd::simulator {
namespace {

constexpr bool goes_on_with_joined(RequestType type) {
  return type == RequestType::kAllreduce || type == RequestType::kAdasum;
}

bool same(const Status& a, const Status& b) {
  return a.code() == b.code() && a.message() == b.message();
}

bool same(const Response& a, const Response& b) {
  return a.request == b.request && a.first_dimensions == b.first_dimensions &&
         same(a.error, b.error);
}

bool same(const Plan& a, const Plan& b) {
  return std::equal(a.responses.begin(), a.responses.end(), b.responses.begin(), b.responses.end(),
                    [](const auto& x, const auto& y) { return same(*x, *y); }) &&
         a.groups == b.groups && a.last_joined == b.last_joined && a.tunables == b.tunables &&
         same(a.shutdown, b.shutdown);
}

// The numbers after the word "rank", lists included.
std::vector<int> ranks_named_in(std::string_view text) {
  std::vector<int> ranks;
  for (size_t at = text.find("rank "); at != std::string_view::npos; at = text.find("rank ")) {
    text.remove_prefix(at + 5);
    for (bool more = true; more;) {
      int rank = -1;
      const char* end = std::from_chars(text.data(), text.data() + text.size(), rank).ptr;
      text.remove_prefix(end - text.data());
      ranks.push_back(rank);
      more = text.size() > 2 && text.starts_with(", ") && text[2] >= '0' && text[2] <= '9';
      if (more) text.remove_prefix(2);
    }
  }
  return ranks;
}

}  // namespace

Judge::Judge(const SetScenario& set)
    : set_(set),
      names_(set.names + 1),
      tensors_(static_cast<size_t>(set.size()) * names_),
      members_(set.size()) {
  for (int name = 0; name < names_; ++name) number_of_[set.name_of(name)] = name;
}

void Judge::submitted(int member, int name, Request request, uint32_t group, uint64_t batch) {
  tensor(member, name) = {Tensor::State::kSubmitted, group, batch, std::move(request)};
  ++members_[member].waiting;
}

void Judge::joined(int member) { ++members_[member].joins; }

// What the coordinator decides -------------------------------------------------------------------

Status Judge::decided(const Plan& plan, bool knew_of_joins) {
  if (plan.responses.empty() && !plan.last_joined && plan.shutdown.is_ok()) {
    return internal_error("an empty plan was made");
  }
  const size_t groups = set_.groups_matter ? plan.responses.size() : 0;
  if (plan.groups.size() != groups) return internal_error("groups of a plan are missing");
  HVD_TRY(check_groups(plan));
  for (const auto& response : plan.responses) {
    const auto found = number_of_.find(response->request.name);
    if (found == number_of_.end()) return internal_error("a plan names a tensor that no rank has");
    const int name = found->second;
    std::vector<int> havers;
    for (int member = 0; member < set_.size(); ++member) {
      if (tensor(member, name).state == Tensor::State::kSubmitted) {
        havers.push_back(member);
      } else if (!knew_of_joins || !joined_since(member)) {
        return internal_error(fmt::format("{} was planned without rank {}, which does not have it",
                                          response->request.name, set_.members[member]));
      }
    }
    if (havers.empty())
      return internal_error(response->request.name + " was planned, but no rank waits for it");
    HVD_TRY(check(*response, name, havers, knew_of_joins));
    for (const int member : havers) tensor(member, name).state = Tensor::State::kDecided;
  }
  if (plan.last_joined) {
    for (int member = 0; member < set_.size(); ++member) {
      if (members_[member].joins != joins_decided_ + 1) {
        return internal_error("a plan ended the joins before all ranks had joined");
      }
    }
    ++joins_decided_;
  }
  plans_.push_back(plan);
  return Status::ok();
}

Status Judge::check(const Response& response, int name, const std::vector<int>& havers,
                    bool knew_of_joins) const {
  const Request& first = tensor(havers.front(), name).request;
  const bool match = std::all_of(havers.begin(), havers.end(), [&](int member) {
    return compare(first, 0, tensor(member, name).request, 1).is_ok();
  });
  const auto wrong = [&](std::string_view what) {
    return internal_error(
        fmt::format("{}: {}, but the answer is {}", first.name, what, response.error.to_string()));
  };
  if (!match) {
    if (!response.error.message().starts_with("Mismatched")) return wrong("ranks do not agree");
    return check_mismatch(response.error, name);
  }
  if (knew_of_joins && !goes_on_with_joined(first.type)) {
    if (response.error.message().find("not supported with Join") == std::string::npos) {
      return wrong("a rank has joined");
    }
    return check_join_error(response.error);
  }
  if (!same(response.error, validate(first))) return wrong("ranks agree");
  return response.error.is_ok() ? check_agreed(response, name, havers) : Status::ok();
}

// The two ranks in the message disagree, and on the property that the message names.
Status Judge::check_mismatch(const Status& error, int name) const {
  const std::vector<int> named = ranks_named_in(error.message());
  const auto untrue = [&] { return internal_error("not true: " + error.message()); };
  if (named.size() != 2) return untrue();
  const Request* requests[2];
  for (int i = 0; i < 2; ++i) {
    const auto found = std::lower_bound(set_.members.begin(), set_.members.end(), named[i]);
    if (found == set_.members.end() || *found != named[i]) return untrue();
    const Tensor& known = tensor(static_cast<int>(found - set_.members.begin()), name);
    if (known.state != Tensor::State::kSubmitted) return untrue();
    requests[i] = &known.request;
  }
  const Status expected = compare(*requests[0], named[0], *requests[1], named[1]);
  if (expected.is_ok()) return untrue();
  // An alltoall that travels as a number does not contain its present number of rows.
  const bool rows_are_known =
      requests[0]->type != RequestType::kAlltoall && requests[1]->type != RequestType::kAlltoall;
  return !rows_are_known || same(expected, error) ? Status::ok() : untrue();
}

Status Judge::check_join_error(const Status& error) const {
  for (const int rank : ranks_named_in(error.message())) {
    const auto found = std::lower_bound(set_.members.begin(), set_.members.end(), rank);
    if (found == set_.members.end() || *found != rank ||
        !joined_since(static_cast<int>(found - set_.members.begin()))) {
      return internal_error("not true: " + error.message());
    }
  }
  return Status::ok();
}

Status Judge::check_agreed(const Response& response, int name,
                           const std::vector<int>& havers) const {
  const Request& asked = tensor(havers.front(), name).request;
  if (!compare(asked, 0, response.request, 1).is_ok()) {
    return internal_error(asked.name + " is answered by something else");
  }
  if (asked.type != RequestType::kAllgather) return Status::ok();
  std::vector<int64_t> rows;
  for (const int member : havers) rows.push_back(tensor(member, name).request.shape.front());
  if (response.first_dimensions != rows) {
    return internal_error(fmt::format("{}: rows are {}, the answer says {}", asked.name,
                                      fmt::join(rows, " "),
                                      fmt::join(response.first_dimensions, " ")));
  }
  return Status::ok();
}

Status Judge::check_groups(const Plan& plan) const {
  std::vector<bool> planned(names_, false);
  for (const auto& response : plan.responses) {
    const auto found = number_of_.find(response->request.name);
    if (found != number_of_.end()) planned[found->second] = true;
  }
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    const auto found = number_of_.find(plan.responses[i]->request.name);
    if (found == number_of_.end()) continue;
    // The coordinator is rank 0 of the set; one that has joined has no groups.
    const Tensor& known = tensor(0, found->second);
    const uint32_t group = known.state == Tensor::State::kSubmitted ? known.group : 0;
    if (plan.groups[i] != group) return internal_error("a plan has the wrong group");
  }
  for (int member = 0; member < set_.size(); ++member) {
    for (int name = 0; name < names_; ++name) {
      const Tensor& known = tensor(member, name);
      if (!planned[name] || known.state != Tensor::State::kSubmitted || known.group == 0) continue;
      for (int other = 0; other < names_; ++other) {
        const Tensor& companion = tensor(member, other);
        if (companion.state == Tensor::State::kSubmitted && companion.batch == known.batch &&
            !planned[other]) {
          return internal_error(fmt::format("{} was planned without {} of its group",
                                            set_.name_of(name), set_.name_of(other)));
        }
      }
    }
  }
  return Status::ok();
}

// What ranks carry out ---------------------------------------------------------------------------

Status Judge::carried_out(int member, const Plan& plan) {
  Member& self = members_[member];
  if (self.plans >= plans_.size()) return internal_error("carried out a plan that was not made");
  if (!same(plan, plans_[self.plans])) {
    return internal_error(fmt::format("plan {} is not the coordinator's", self.plans));
  }
  ++self.plans;
  for (const auto& response : plan.responses) {
    Tensor& known = tensor(member, number_of_.at(response->request.name));
    if (known.state == Tensor::State::kDecided) {
      known.state = Tensor::State::kIdle;
      --self.waiting;
    } else if (!has_joined(member) || !plan.joined_here) {
      return internal_error(response->request.name + " has to be carried out without a tensor");
    }
  }
  if (plan.last_joined) ++self.released;
  return Status::ok();
}

std::string Judge::waiting_list(int member) const {
  std::string list;
  for (int name = 0; name < names_; ++name) {
    if (is_waiting(member, name)) list += " " + set_.name_of(name);
  }
  return list.empty() ? " nothing" : list;
}

}  // namespace hvd::simulator
