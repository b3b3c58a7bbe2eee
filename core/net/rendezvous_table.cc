// SPDX-License-Identifier: Apache-2.0
#include "net/rendezvous_table.h"

#include <algorithm>
#include <charconv>

#include "net/frame.h"

namespace hvd {
namespace {

// Bytes of an answer that are not values: id, code, message and counts.
constexpr size_t kAnswerOverhead = 1024;
constexpr size_t kMissingNamed = 8;  // keys that the message of a timeout names
constexpr size_t kMostGroups = 1024;
constexpr size_t kMostLeft = size_t{1} << 20;  // per group

std::string quoted(std::string_view key) {
  return "key \"" + std::string(key.substr(0, 128)) + "\"";
}

Status too_large(std::string_view what, size_t bytes) {
  return invalid_argument(std::string(what) + " would be " + std::to_string(bytes) +
                          " bytes, more than one answer of the rendezvous server can hold; ask for "
                          "fewer keys");
}

}  // namespace

RendezvousTable::RendezvousTable(const RendezvousLimits& limits, SendAnswer send_answer)
    : limits_(limits), send_answer_(std::move(send_answer)) {
  HVD_CHECK(limits.value_bytes <= kFrameLimit - kAnswerOverhead);
}

Status RendezvousTable::handle(ClientId client, ConstBytes request) {
  Decoder arguments(request);
  uint64_t id = 0;
  uint8_t op = 0;
  HVD_TRY(arguments.get(id));
  HVD_TRY(arguments.get(op));
  if (static_cast<RendezvousOp>(op) == RendezvousOp::kStopWait)
    return handle_stop_wait(client, id, arguments);
  drop_wait(client);  // a client has one request open
  switch (static_cast<RendezvousOp>(op)) {
    case RendezvousOp::kSet: return handle_set(client, id, arguments);
    case RendezvousOp::kGet: return handle_get(client, id, arguments);
    case RendezvousOp::kWaitAll: return handle_wait_all(client, id, arguments);
    case RendezvousOp::kRemove: return handle_remove(client, id, arguments);
    case RendezvousOp::kList: return handle_list(client, id, arguments);
    case RendezvousOp::kAdd: return handle_add(client, id, arguments);
    case RendezvousOp::kEnter: return handle_enter(client, id, arguments);
    case RendezvousOp::kLeave: return handle_leave(client, id, arguments);
    case RendezvousOp::kLose: return handle_lose(client, id, arguments);
    case RendezvousOp::kWaitFor: return handle_wait_for(client, id, arguments);
    default: return invalid_argument("unknown request " + std::to_string(op));
  }
}

void RendezvousTable::forget(ClientId client) {
  drop_wait(client);
  const auto found = members_.find(client);
  if (found == members_.end()) return;
  const Member member = found->second;
  lose(member.group, {member.rank, "its connection to the rendezvous server has ended"});
  leave(client);
}

void RendezvousTable::answer(ClientId client, uint64_t id, const Status& status,
                             ConstBytes result) {
  Encoder encoder;
  encoder.put(id).put(static_cast<uint8_t>(status.code())).put(status.message()).put(result);
  send_answer_(client, encoder.take());
}

void RendezvousTable::answer(ClientId client, uint64_t id, const Loss& loss) {
  answer(client, id, peer_lost(loss.rank, loss.why),
         Encoder().put(loss.rank).put(loss.why).bytes());
}

Status RendezvousTable::handle_set(ClientId client, uint64_t id, Decoder& arguments) {
  std::string_view key;
  ConstBytes value;
  HVD_TRY(arguments.get(key));
  HVD_TRY(arguments.get(value));
  HVD_TRY(arguments.finish());
  answer(client, id, set(key, value));
  return Status::ok();
}

Status RendezvousTable::handle_get(ClientId client, uint64_t id, Decoder& arguments) {
  std::string_view key;
  HVD_TRY(arguments.get(key));
  HVD_TRY(arguments.finish());
  const auto found = values_.find(key);
  if (found == values_.end()) {
    answer(client, id, not_found("there is no " + quoted(key)));
  } else {
    answer(client, id, Status::ok(), found->second);
  }
  return Status::ok();
}

Status RendezvousTable::handle_wait_all(ClientId client, uint64_t id, Decoder& arguments) {
  std::vector<std::string> keys;
  HVD_TRY(arguments.get(keys));
  HVD_TRY(arguments.finish());
  waits_.emplace(client, Wait{id, std::move(keys), {}});
  try_finish(client);
  return Status::ok();
}

Status RendezvousTable::handle_wait_for(ClientId client, uint64_t id, Decoder& arguments) {
  std::vector<std::string> keys;
  std::vector<int32_t> setters;
  HVD_TRY(arguments.get(keys));
  HVD_TRY(arguments.get(setters));
  HVD_TRY(arguments.finish());
  if (setters.size() != keys.size())
    return invalid_argument("the number of ranks differs from the number of keys");
  waits_.emplace(client, Wait{id, std::move(keys), std::move(setters)});
  try_finish(client);
  return Status::ok();
}

Status RendezvousTable::handle_stop_wait(ClientId client, uint64_t id, Decoder& arguments) {
  HVD_TRY(arguments.finish());
  uint32_t missing = 0;
  std::vector<std::string> names;
  if (const auto wait = waits_.find(client); wait != waits_.end()) {
    for (const std::string& key : wait->second.keys) {
      if (values_.count(key) > 0) continue;
      ++missing;
      if (names.size() < kMissingNamed) names.push_back(key);
    }
  }
  drop_wait(client);
  Encoder result;
  result.put(missing).put(names);
  answer(client, id, Status::ok(), result.bytes());
  return Status::ok();
}

Status RendezvousTable::handle_remove(ClientId client, uint64_t id, Decoder& arguments) {
  std::string_view key;
  HVD_TRY(arguments.get(key));
  HVD_TRY(arguments.finish());
  const auto found = values_.find(key);
  const bool existed = found != values_.end();
  if (existed) {
    total_bytes_ -= found->first.size() + found->second.size();
    values_.erase(found);
  }
  answer(client, id, Status::ok(), Encoder().put(existed).bytes());
  return Status::ok();
}

Status RendezvousTable::handle_list(ClientId client, uint64_t id, Decoder& arguments) {
  std::string_view prefix;
  HVD_TRY(arguments.get(prefix));
  HVD_TRY(arguments.finish());
  std::vector<std::string> keys;
  size_t bytes = 0;
  for (auto entry = values_.lower_bound(prefix);
       entry != values_.end() && entry->first.starts_with(prefix); ++entry) {
    bytes += sizeof(uint32_t) + entry->first.size();
    keys.push_back(entry->first);
  }
  if (bytes > kFrameLimit - kAnswerOverhead) {
    answer(client, id, too_large("the list of keys", bytes));
  } else {
    answer(client, id, Status::ok(), Encoder().put(keys).bytes());
  }
  return Status::ok();
}

Status RendezvousTable::handle_add(ClientId client, uint64_t id, Decoder& arguments) {
  std::string_view key;
  int64_t delta = 0;
  HVD_TRY(arguments.get(key));
  HVD_TRY(arguments.get(delta));
  HVD_TRY(arguments.finish());
  const Result<int64_t> sum = add(key, delta);
  if (sum.is_ok()) {
    answer(client, id, Status::ok(), Encoder().put(*sum).bytes());
  } else {
    answer(client, id, sum.status());
  }
  return Status::ok();
}

Status RendezvousTable::handle_enter(ClientId client, uint64_t id, Decoder& arguments) {
  std::string_view group;
  int32_t rank = 0;
  HVD_TRY(arguments.get(group));
  HVD_TRY(arguments.get(rank));
  HVD_TRY(arguments.finish());
  answer(client, id, enter(client, group, rank));
  return Status::ok();
}

Status RendezvousTable::handle_leave(ClientId client, uint64_t id, Decoder& arguments) {
  HVD_TRY(arguments.finish());
  leave(client);
  answer(client, id, Status::ok());
  return Status::ok();
}

Status RendezvousTable::handle_lose(ClientId client, uint64_t id, Decoder& arguments) {
  Loss loss{};
  HVD_TRY(arguments.get(loss.rank));
  HVD_TRY(arguments.get(loss.why));
  HVD_TRY(arguments.finish());
  const auto member = members_.find(client);
  if (member == members_.end()) {
    answer(client, id, precondition("only a member of a group can report a loss"));
    return Status::ok();
  }
  lose(member->second.group, loss);
  answer(client, id, *loss_known_to(client));
  return Status::ok();
}

Status RendezvousTable::enter(ClientId client, std::string_view group, int32_t rank) {
  leave(client);
  if (group.size() > limits_.key_bytes) {
    return invalid_argument("the name of a group is longer than the limit of " +
                            std::to_string(limits_.key_bytes) + " bytes");
  }
  // A group without members is kept only to report its loss. Such groups are dropped when there are
  // too many groups.
  if (groups_.size() >= kMostGroups) {
    std::erase_if(groups_, [](const auto& entry) { return entry.second.members.empty(); });
  }
  if (groups_.size() >= kMostGroups && groups_.find(group) == groups_.end()) {
    return unavailable("the rendezvous server already has its limit of " +
                       std::to_string(kMostGroups) + " groups");
  }
  Group& entered = groups_[std::string(group)];
  entered.members.insert(client);
  entered.left.erase(rank);
  members_[client] = {std::string(group), rank};
  return Status::ok();
}

void RendezvousTable::leave(ClientId client) {
  const auto member = members_.find(client);
  if (member == members_.end()) return;
  const auto group = groups_.find(member->second.group);
  group->second.members.erase(client);
  if (group->second.left.size() < kMostLeft) group->second.left.insert(member->second.rank);
  members_.erase(member);
  end_waits(group->second);
  if (group->second.members.empty() && !group->second.loss.has_value()) groups_.erase(group);
}

void RendezvousTable::lose(const std::string& group, const Loss& loss) {
  Group& losing = groups_.at(group);
  if (losing.loss.has_value()) return;
  losing.loss = loss;
  end_waits(losing);
}

void RendezvousTable::end_waits(const Group& group) {
  for (const ClientId client : group.members) {
    const auto wait = waits_.find(client);
    if (wait == waits_.end()) continue;
    const std::optional<Loss> loss = why_in_vain(client, wait->second);
    if (!loss.has_value()) continue;
    const uint64_t id = wait->second.id;
    drop_wait(client);
    answer(client, id, *loss);
  }
}

std::optional<RendezvousTable::Loss> RendezvousTable::why_in_vain(ClientId client,
                                                                  const Wait& wait) const {
  if (const Loss* loss = loss_known_to(client); loss != nullptr) return *loss;
  const auto member = members_.find(client);
  if (member == members_.end()) return std::nullopt;
  const std::set<int32_t>& left = groups_.at(member->second.group).left;
  if (left.empty()) return std::nullopt;  // the usual case: n waits must not cost n² look-ups
  for (size_t i = 0; i < wait.setters.size(); ++i) {
    if (left.count(wait.setters[i]) == 0 || values_.count(wait.keys[i]) > 0) continue;
    return Loss{wait.setters[i], "it left the job"};
  }
  return std::nullopt;
}

const RendezvousTable::Loss* RendezvousTable::loss_known_to(ClientId client) const {
  const auto member = members_.find(client);
  if (member == members_.end()) return nullptr;
  const Group& group = groups_.at(member->second.group);
  return group.loss.has_value() ? &*group.loss : nullptr;
}

Status RendezvousTable::check_limits(std::string_view key, size_t value_bytes) const {
  const auto found = values_.find(key);
  const size_t old_bytes = found == values_.end() ? 0 : found->first.size() + found->second.size();
  if (key.size() > limits_.key_bytes) {
    return invalid_argument("a key of " + std::to_string(key.size()) +
                            " bytes is longer than the limit of " +
                            std::to_string(limits_.key_bytes) + ": " + quoted(key) + "...");
  }
  if (value_bytes > limits_.value_bytes) {
    return invalid_argument(quoted(key) + ": a value of " + std::to_string(value_bytes) +
                            " bytes is longer than the limit of " +
                            std::to_string(limits_.value_bytes));
  }
  if (found == values_.end() && values_.size() >= limits_.keys) {
    return unavailable(quoted(key) + ": the rendezvous server already holds its limit of " +
                       std::to_string(limits_.keys) + " keys; remove some");
  }
  if (total_bytes_ - old_bytes + key.size() + value_bytes > limits_.total_bytes) {
    return unavailable(quoted(key) + ": the rendezvous server would hold more than its limit of " +
                       std::to_string(limits_.total_bytes) + " bytes; remove some keys");
  }
  return Status::ok();
}

Status RendezvousTable::set(std::string_view key, ConstBytes value) {
  HVD_TRY(check_limits(key, value.size()));
  const auto [entry, is_new] = values_.try_emplace(std::string(key));
  if (is_new) total_bytes_ += key.size();
  total_bytes_ -= entry->second.size();
  total_bytes_ += value.size();
  entry->second.assign(value.begin(), value.end());
  if (is_new) wake(entry->first);
  return Status::ok();
}

Result<int64_t> RendezvousTable::add(std::string_view key, int64_t delta) {
  int64_t sum = 0;
  if (const auto found = values_.find(key); found != values_.end()) {
    const std::string_view text = text_of(found->second);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), sum);
    if (error != std::errc() || end != text.data() + text.size()) {
      return precondition(quoted(key) + " holds a value that is not a counter");
    }
  }
  if (__builtin_add_overflow(sum, delta, &sum)) {
    return precondition(quoted(key) + ": the counter would leave the range of 64 bits");
  }
  HVD_TRY(set(key, bytes_of(std::to_string(sum))));
  return sum;
}

void RendezvousTable::try_finish(ClientId client) {
  Wait& wait = waits_.at(client);
  const size_t count = wait.keys.size();
  // Starts at the key on which the wait slept, but tests all keys: another key may have been
  // removed.
  for (size_t i = 0; i < count; ++i) {
    const size_t index = (wait.blocked_on + i) % count;
    if (values_.count(wait.keys[index]) > 0) continue;
    if (const auto loss = why_in_vain(client, wait); loss.has_value()) {
      const uint64_t id = wait.id;
      waits_.erase(client);
      return answer(client, id, *loss);
    }
    wait.blocked_on = index;
    sleepers_[wait.keys[index]].push_back(client);
    return;
  }
  const uint64_t id = wait.id;
  const Result<ByteBuffer> values = values_of(wait.keys);
  waits_.erase(client);
  if (values.is_ok()) {
    answer(client, id, Status::ok(), *values);
  } else {
    answer(client, id, values.status());
  }
}

Result<ByteBuffer> RendezvousTable::values_of(const std::vector<std::string>& keys) const {
  size_t bytes = 0;
  for (const std::string& key : keys) {
    bytes += sizeof(uint32_t) + values_.find(key)->second.size();
  }
  if (bytes > kFrameLimit - kAnswerOverhead) return too_large("the values", bytes);
  Encoder encoder;
  encoder.put(static_cast<uint32_t>(keys.size()));
  for (const std::string& key : keys) encoder.put(values_.find(key)->second);
  return encoder.take();
}

void RendezvousTable::wake(const std::string& key) {
  const auto found = sleepers_.find(key);
  if (found == sleepers_.end()) return;
  const std::vector<ClientId> clients = std::move(found->second);
  sleepers_.erase(found);
  for (const ClientId client : clients) try_finish(client);
}

void RendezvousTable::drop_wait(ClientId client) {
  const auto wait = waits_.find(client);
  if (wait == waits_.end()) return;
  const auto sleepers = sleepers_.find(wait->second.keys[wait->second.blocked_on]);
  std::erase(sleepers->second, client);
  if (sleepers->second.empty()) sleepers_.erase(sleepers);
  waits_.erase(wait);
}

}  // namespace hvd
