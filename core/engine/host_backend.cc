// SPDX-License-Identifier: Apache-2.0
#include "engine/host_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/adasum/adasum.h"
#include "collectives/allgather/allgather.h"
#include "collectives/alltoall/alltoall.h"
#include "collectives/barrier/barrier.h"
#include "collectives/broadcast/broadcast.h"
#include "collectives/identity.h"
#include "collectives/reducescatter/reducescatter.h"

namespace hvd {
namespace {

// Bytes of one row: of all dimensions except the first.
size_t row_bytes(const Request& request) {
  size_t bytes = size_of(request.dtype);
  for (size_t i = 1; i < request.shape.size(); ++i) bytes *= static_cast<size_t>(request.shape[i]);
  return bytes;
}

// These numbers arrive with the data, and an attacker on the network can change them. A block of
// negative length would lie outside of the output.
Status check_received_splits(const TensorTask& task, std::span<const int> job_ranks) {
  const auto& splits = task.received_splits;
  const auto negative =
      std::find_if(splits.begin(), splits.end(), [](int32_t rows) { return rows < 0; });
  if (negative == splits.end()) return Status::ok();
  return unauthenticated(
      fmt::format("{} \"{}\": rank {} cannot have sent {} rows; the number was changed on the way",
                  to_string(task.request.type), task.request.name,
                  job_ranks[negative - splits.begin()], *negative));
}

Shape with_rows(Shape shape, int64_t rows) {
  shape.front() = rows;
  return shape;
}

}  // namespace

Result<std::unique_ptr<HostBackend>> HostBackend::make(Transport& transport,
                                                       const HostBackendOptions& options) {
  HVD_TRY_ASSIGN(const AllreduceSelector selector,
                 AllreduceSelector::make(transport.topology(), transport.hosts_share_memory(),
                                         options.allreduce, offered_allreduce_algorithms()));
  return std::unique_ptr<HostBackend>(new HostBackend(transport, options, selector));
}

HostBackend::HostBackend(Transport& transport, HostBackendOptions options,
                         AllreduceSelector selector)
    : transport_(transport), options_(std::move(options)), selector_(selector) {}

Status HostBackend::set_allreduce(const AllreduceOptions& options) {
  HVD_TRY_ASSIGN(selector_,
                 AllreduceSelector::make(transport_.topology(), transport_.hosts_share_memory(),
                                         options, offered_allreduce_algorithms()));
  options_.allreduce = options;
  return Status::ok();
}

Status HostBackend::run(std::span<const Item> batch, Completion& completion) {
  HVD_TRY(carry_out(batch));
  completion.finish(Status::ok());
  return Status::ok();
}

Status HostBackend::carry_out(std::span<const Item> batch) {
  substitutes_.clear();
  const Item& first = batch.front();
  switch (first.response->request.type) {
    case RequestType::kAllreduce: return allreduce(batch);
    case RequestType::kAdasum: return adasum(batch);
    case RequestType::kAllgather: return allgather(batch);
    case RequestType::kReducescatter: return reducescatter(batch);
    case RequestType::kBroadcast: return broadcast(first);
    case RequestType::kAlltoall: return alltoall(first);
    case RequestType::kBarrier: return barrier(context());
    case RequestType::kAddProcessSet:
    case RequestType::kRemoveProcessSet: break;  // there is no data; the ranks only had to agree
  }
  return Status::ok();
}

Bytes HostBackend::output_of(TensorTask& task, Shape shape) {
  task.output_shape = std::move(shape);
  task.has_own_shape = true;
  return output_of(task);
}

Bytes HostBackend::output_of(TensorTask& task) {
  const Shape& shape = task.shape_of_output();
  const size_t bytes = static_cast<size_t>(elements_of(shape)) * size_of(task.request.dtype);
  if (task.out == nullptr && task.operation->allocate) {
    task.out = task.operation->allocate(task.index, shape);
  } else if (task.out == nullptr) {
    task.own_output.reset(new (std::nothrow) std::byte[std::max<size_t>(bytes, 1)]);
    task.out = task.own_output.get();
  }
  if (task.out != nullptr || bytes == 0) return {task.out, bytes};
  task.operation->note(
      unavailable(fmt::format("{} \"{}\": no memory for an output of {} bytes",
                              to_string(task.request.type), task.request.name, bytes)));
  substitutes_.push_back(std::make_unique<Scratch>());
  return substitutes_.back()->get(bytes);
}

// Passes the tensors as pieces, without a fused copy. The algorithm copies them only if it has to.
Status HostBackend::allreduce(std::span<const Item> batch) {
  const Request& request = batch.front().response->request;
  HVD_TRY_ASSIGN(Reduction reduction, Reduction::make(request.op, request.dtype, transport_.size(),
                                                      request.prescale, request.postscale));
  size_t total = 0;
  size_t absent = 0;  // bytes of the tensors that this rank does not have
  for (const Item& item : batch) {
    const size_t bytes = item.response->request.bytes();
    total += bytes;
    if (item.task == nullptr) absent += bytes;
  }
  Bytes identity = identity_.get(absent);
  // A scaled identity would change the result. So this rank scales the tensors that it has here,
  // and the reduction scales nothing.
  const Reduction scaling = reduction;
  const bool scales_here = absent > 0 && scaling.needs_prepare();
  if (absent > 0) {
    fill_identity(request.op, request.dtype, identity);
    reduction = reduction.without_prepare();
  }
  pieces_.clear();
  for (const Item& item : batch) {
    const size_t bytes = item.response->request.bytes();
    if (item.task == nullptr) {
      pieces_.push_back({identity.data(), identity.data(), bytes});
      identity = identity.subspan(bytes);
    } else {
      const Bytes out = output_of(*item.task);
      const std::byte* in = item.task->in;
      if (scales_here) {
        if (in != out.data()) copy_bytes(out.data(), in, bytes);
        scaling.prepare(out.first(bytes));
        in = out.data();
      }
      pieces_.push_back({in, out.data(), bytes});
    }
  }
  return allreduce_pieces(context(), selector_.choose(total), pieces_, reduction, fusion_);
}

Status HostBackend::adasum(std::span<const Item> batch) {
  const Request& request = batch.front().response->request;
  size_t total = 0;
  std::vector<size_t> counts;
  for (const Item& item : batch) {
    counts.push_back(static_cast<size_t>(elements_of(item.response->request.shape)));
    total += item.response->request.bytes();
  }
  Bytes data = fusion_.get(total);
  size_t at = 0;
  for (const Item& item : batch) {
    const size_t bytes = item.response->request.bytes();
    if (item.task == nullptr) {
      std::fill_n(data.data() + at, bytes, std::byte{0});
    } else {
      copy_bytes(data.data() + at, item.task->in, bytes);
    }
    at += bytes;
  }
  HVD_TRY(hvd::adasum(context(), data, counts, request.dtype, request.prescale, request.postscale));
  for (const Item& item : batch) {
    const size_t bytes = item.response->request.bytes();
    if (item.task != nullptr) {
      copy_bytes(output_of(*item.task).data(), data.data(), bytes);
    }
    data = data.subspan(bytes);
  }
  return Status::ok();
}

// With several tensors each rank sends its rows of all tensors as one block.
Status HostBackend::allgather(std::span<const Item> batch) {
  const int ranks = transport_.size();
  std::vector<size_t> bytes_of(ranks, 0);
  for (const Item& item : batch) {
    const size_t row = row_bytes(item.response->request);
    for (int rank = 0; rank < ranks; ++rank) {
      bytes_of[rank] += static_cast<size_t>(item.response->first_dimensions[rank]) * row;
    }
  }
  const size_t total = std::accumulate(bytes_of.begin(), bytes_of.end(), size_t{0});
  const auto output = [this](const Item& item) {
    const auto& rows = item.response->first_dimensions;
    return output_of(*item.task, with_rows(item.task->request.shape,
                                           std::accumulate(rows.begin(), rows.end(), int64_t{0})));
  };
  const auto gather = [&](ConstBytes mine, Bytes out) {
    const bool two_level = options_.hierarchical_allgather && transport_.topology().hosts() > 1 &&
                           transport_.topology().largest_host() > 1;
    return two_level ? two_level_allgather(context(), mine, out, bytes_of)
                     : hvd::allgather(context(), mine, out, bytes_of);
  };
  if (batch.size() == 1) {
    return gather({batch.front().task->in, bytes_of[transport_.rank()]}, output(batch.front()));
  }

  const Bytes mine = fusion_.get(bytes_of[transport_.rank()]);
  size_t at = 0;
  for (const Item& item : batch) {
    const size_t bytes = item.task->request.bytes();
    copy_bytes(mine.data() + at, item.task->in, bytes);
    at += bytes;
  }
  const Bytes all = fused_out_.get(total);
  HVD_TRY(gather(mine, all));
  std::vector<size_t> next(ranks, 0);  // by rank: offset in `all` of the next byte to unpack
  for (int rank = 1; rank < ranks; ++rank) next[rank] = next[rank - 1] + bytes_of[rank - 1];
  for (const Item& item : batch) {
    std::byte* to = output(item).data();
    const size_t row = row_bytes(item.response->request);
    for (int rank = 0; rank < ranks; ++rank) {
      const size_t bytes = static_cast<size_t>(item.response->first_dimensions[rank]) * row;
      copy_bytes(to, all.data() + next[rank], bytes);
      to += bytes;
      next[rank] += bytes;
    }
  }
  return Status::ok();
}

// With several tensors, part r of the fused tensor consists of part r of each of them.
Status HostBackend::reducescatter(std::span<const Item> batch) {
  const int ranks = transport_.size();
  const Request& request = batch.front().response->request;
  HVD_TRY_ASSIGN(const Reduction reduction, Reduction::make(request.op, request.dtype, ranks,
                                                            request.prescale, request.postscale));
  std::vector<std::vector<size_t>> parts;  // by item, by rank
  std::vector<size_t> bytes_of(ranks, 0);
  for (const Item& item : batch) {
    const Request& each = item.response->request;
    parts.push_back(row_parts(static_cast<size_t>(each.shape.front()), row_bytes(each), ranks));
    for (int rank = 0; rank < ranks; ++rank) bytes_of[rank] += parts.back()[rank];
  }
  const size_t total = std::accumulate(bytes_of.begin(), bytes_of.end(), size_t{0});
  const auto output = [this](const Item& item) {
    const Shape& shape = item.task->request.shape;
    const size_t rows =
        rows_of(static_cast<size_t>(shape.front()), transport_.rank(), transport_.size());
    return output_of(*item.task, with_rows(shape, static_cast<int64_t>(rows)));
  };
  const auto scatter = [&](ConstBytes in, Bytes out) {
    return hvd::reducescatter(context(), in, out, bytes_of, reduction);
  };
  if (batch.size() == 1) return scatter({batch[0].task->in, total}, output(batch[0]));

  const Bytes in = fusion_.get(total);
  size_t at = 0;
  std::vector<size_t> taken(batch.size(), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    for (size_t i = 0; i < batch.size(); ++i) {
      copy_bytes(in.data() + at, batch[i].task->in + taken[i], parts[i][rank]);
      at += parts[i][rank];
      taken[i] += parts[i][rank];
    }
  }
  Bytes out = fused_out_.get(bytes_of[transport_.rank()]);
  HVD_TRY(scatter(in, out));
  for (const Item& item : batch) {
    const Bytes to = output(item);
    copy_bytes(to.data(), out.data(), to.size());
    out = out.subspan(to.size());
  }
  return Status::ok();
}

Status HostBackend::broadcast(const Item& item) {
  TensorTask& task = *item.task;
  const auto& ranks = options_.job_ranks;
  const auto root =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), task.request.root) - ranks.begin());
  const Bytes data = output_of(task);
  if (root == transport_.rank() && data.data() != task.in) {
    copy_bytes(data.data(), task.in, data.size());
  }
  return hvd::broadcast(context(), data, root);
}

Status HostBackend::alltoall(const Item& item) {
  TensorTask& task = *item.task;
  const int ranks = transport_.size();
  // First the number of rows that each rank gets from each rank.
  task.received_splits.assign(ranks, 0);
  const std::vector<size_t> one_each(ranks, sizeof(int32_t));
  HVD_TRY(hvd::alltoall(context(), std::as_bytes(std::span(task.splits)), one_each,
                        std::as_writable_bytes(std::span(task.received_splits)), one_each));
  HVD_TRY(check_received_splits(task, options_.job_ranks));
  const size_t row = row_bytes(task.request);
  std::vector<size_t> send(ranks);
  std::vector<size_t> receive(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    send[rank] = static_cast<size_t>(task.splits[rank]) * row;
    receive[rank] = static_cast<size_t>(task.received_splits[rank]) * row;
  }
  const int64_t rows =
      std::accumulate(task.received_splits.begin(), task.received_splits.end(), int64_t{0});
  const size_t sent = std::accumulate(send.begin(), send.end(), size_t{0});
  const Bytes out = output_of(task, with_rows(task.request.shape, rows));
  return hvd::alltoall(context(), {task.in, sent}, send, out, receive);
}

}  // namespace hvd
