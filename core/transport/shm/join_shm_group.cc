// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "transport/shm/shm_group.h"

namespace hvd {
namespace {

constexpr std::string_view kGood = "ok ";
constexpr std::string_view kBad = "no ";

std::string text_of(const ByteBuffer& value) {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

}  // namespace

// Each rank publishes its result under `key`/<local rank>. It is "ok ", to which local rank 0 adds
// Segment::descriptor(); or it is "no " and the reason.
Result<std::unique_ptr<ShmGroup>> ShmGroup::join(const ShmGroupOptions& options,
                                                 RendezvousClient& rendezvous,
                                                 LifelineHolder& lifelines, Health& health,
                                                 Deadline deadline) {
  const auto ranks = static_cast<int>(options.job_ranks.size());
  if (ranks > Arena::kMostRanks) {
    return unavailable(fmt::format("{} ranks on one host; shared memory serves at most {}", ranks,
                                   Arena::kMostRanks));
  }
  const auto still_whole = [&health] { return health.status(); };
  Result<std::unique_ptr<Segment>> segment = unavailable("not attached");
  std::string answer;
  // Each rank allocates its own slots before it publishes its result. Otherwise a rank without room
  // for its slots would fail only when the other ranks already use shared memory.
  const auto populate = [&](Result<std::unique_ptr<Segment>> made) {
    if (!made.is_ok()) return made;
    const Status populated = Arena::populate_slots((*made)->memory(), options.local_rank, ranks);
    return populated.is_ok() ? std::move(made) : populated;
  };
  if (options.local_rank == 0) {
    segment = populate(Segment::create(options.kind, bytes_needed(ranks)));
    answer = segment.is_ok() ? (*segment)->descriptor() : segment.status().message();
  } else {
    HVD_TRY_ASSIGN(
        const auto values,
        rendezvous.wait_for({options.key + "/0"}, {options.job_ranks[0]}, deadline, still_whole));
    const std::string made = text_of(values[0]);
    if (made.starts_with(kGood)) segment = populate(Segment::attach(made.substr(kGood.size())));
    if (!segment.is_ok()) answer = segment.status().message();
  }
  HVD_TRY(rendezvous.set(fmt::format("{}/{}", options.key, options.local_rank),
                         fmt::format("{}{}", segment.is_ok() ? kGood : kBad, answer)));

  std::vector<std::string> keys;
  for (int peer = 0; peer < ranks; ++peer) keys.push_back(fmt::format("{}/{}", options.key, peer));
  HVD_TRY_ASSIGN(const std::vector<ByteBuffer> answers,
                 rendezvous.wait_for(keys, options.job_ranks, deadline, still_whole));
  for (int peer = 0; peer < ranks; ++peer) {
    const std::string text = text_of(answers[peer]);
    if (!text.starts_with(kGood)) {
      return unavailable(fmt::format("no shared memory on this host: rank {}: {}",
                                     options.job_ranks[peer], text.substr(kBad.size())));
    }
  }
  (*segment)->forget_name();
  auto links = std::make_unique<ShmGroup>(std::move(*segment), options.local_rank,
                                          options.job_ranks, lifelines, health);
  HVD_TRY(links->arena().open(deadline));
  return links;
}

Result<bool> ShmGroup::joined_everywhere(const std::vector<HostMembers>& hosts,
                                         RendezvousClient& rendezvous, const Health& health,
                                         Deadline deadline) {
  std::vector<std::string> keys;
  std::vector<int> setters;
  for (const HostMembers& host : hosts) {
    for (size_t peer = 0; peer < host.job_ranks.size(); ++peer) {
      keys.push_back(fmt::format("{}/{}", host.key, peer));
      setters.push_back(host.job_ranks[peer]);
    }
  }
  HVD_TRY_ASSIGN(
      const std::vector<ByteBuffer> answers,
      rendezvous.wait_for(keys, setters, deadline, [&health] { return health.status(); }));
  return std::all_of(answers.begin(), answers.end(),
                     [](const ByteBuffer& answer) { return text_of(answer).starts_with(kGood); });
}

}  // namespace hvd
