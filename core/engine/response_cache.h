// SPDX-License-Identifier: Apache-2.0
// The responses that the ranks of a process set agreed on before. Every rank has the same entries
// under the same numbers, because all ranks apply the same plans in the same order. So when a
// tensor is submitted again, announcements and plans contain only its number.
//
// Numbers are never reused. When the cache is full, the least recently used entry is evicted.
// Only the thread that runs the engine uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/request.h"

namespace hvd {

using ResponseId = uint32_t;
inline constexpr ResponseId kNoResponse = UINT32_MAX;

class ResponseCache {
 public:
  struct Entry {
    ResponseId id;
    std::shared_ptr<const Response> response;
    std::list<Entry*>::iterator age;  // in ages_
  };

  explicit ResponseCache(size_t capacity) : capacity_(capacity) {}

  // Null when there is none. An entry keeps its address until it is evicted.
  Entry* find(std::string_view name) const;
  Entry* find(ResponseId id) const;

  // Whether `cached` answers `request` of rank `rank` of the set.
  static bool answers(const Response& cached, const Request& request, int rank);

  // Makes it the most recently used entry.
  void touch(const Entry& entry) { ages_.splice(ages_.end(), ages_, entry.age); }
  // Gives the response the next number; replaces an older response of the same name. Appends the
  // entries that it replaces or evicts to `evicted`. Returns null if the capacity is 0.
  Entry* insert(std::shared_ptr<const Response> response, std::vector<Entry>& evicted);
  void erase(std::string_view name, std::vector<Entry>& evicted);
  void set_capacity(size_t capacity, std::vector<Entry>& evicted);

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [id, entry] : by_id_) visit(*entry);
  }

  size_t size() const { return by_id_.size(); }
  size_t capacity() const { return capacity_; }
  // Number of inserts so far that found the cache full.
  size_t crowded_out() const { return crowded_out_; }

 private:
  void evict(Entry& entry, std::vector<Entry>& evicted);
  void shrink(size_t most, std::vector<Entry>& evicted);

  size_t capacity_;
  ResponseId next_id_ = 0;
  size_t crowded_out_ = 0;
  std::unordered_map<ResponseId, std::unique_ptr<Entry>> by_id_;
  std::unordered_map<std::string_view, Entry*> by_name_;  // views of the responses' names
  std::list<Entry*> ages_;                                // least recently used first
};

}  // namespace hvd
