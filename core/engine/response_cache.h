// SPDX-License-Identifier: Apache-2.0
// What ranks have agreed on before. Every rank holds the same entries under the same numbers,
// because all apply the same plans in the same order; so a tensor that comes again travels as a
// number, and the plan that answers as a number too.
//
// Numbers are never used twice. The least recently used entry leaves when there are too many.
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

  // Null when there is none.
  Entry* find(std::string_view name) const;
  Entry* find(ResponseId id) const;

  // Whether `request` of rank `rank` is answered by this entry.
  static bool answers(const Response& cached, const Request& request, int rank);

  void touch(const Entry& entry) { ages_.splice(ages_.end(), ages_, entry.age); }
  // Gives the response a number, in place of an older one of the same name. Appends the entries
  // that have to leave for it to `evicted`.
  // Null if there is no room for any.
  Entry* insert(std::shared_ptr<const Response> response, std::vector<Entry>& evicted);
  void erase(std::string_view name, std::vector<Entry>& evicted);
  void set_capacity(size_t capacity, std::vector<Entry>& evicted);

  template <typename Visit>
  void for_each(Visit visit) const {
    for (const auto& [id, entry] : by_id_) visit(*entry);
  }

  size_t size() const { return by_id_.size(); }
  size_t capacity() const { return capacity_; }
  // Entries that left for lack of room, ever.
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
