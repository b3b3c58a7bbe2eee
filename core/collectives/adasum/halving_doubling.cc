// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <vector>

#include "collectives/adasum/adasum.h"
#include "collectives/adasum/pair.h"
#include "collectives/allreduce/fold.h"

namespace hvd {
namespace {

using kernels::Products;

// The state of one call of halving_doubling_adasum, on its stack. `context` and `counts` must
// outlive it.
class Run {
 public:
  Run(const CollectiveContext& context, Bytes data, std::span<const size_t> counts, DType dtype)
      : context_(context),
        data_(data),
        element_(size_of(dtype)),
        pair_(dtype, counts),
        sums_(counts.size()),
        theirs_(counts.size()),
        fold_(context.rank(), context.size()),
        piece_{0, data.size() / element_} {
    // Room for the whole vector of the partner beyond p, if there is one, else for half a vector.
    const size_t half = piece_.count - piece_.count / 2;
    if (in_tree())
      arrived_ = context.scratch.get((fold_.partner() < 0 ? half : piece_.count) * element_);
  }

  // Whether this rank is one of the p ranks of the tree.
  bool in_tree() const { return fold_.stays(); }
  Bytes piece() const { return at(piece_); }

  // A rank beyond p sends its vector to its partner, which combines both.
  Status fold_in() {
    if (fold_.partner() < 0) return Status::ok();
    if (!in_tree()) return context_.send(fold_.partner(), data_);
    HVD_TRY(context_.recv(fold_.partner(), arrived_));
    pair_.measure(piece_, data_.data(), arrived_.data(), sums_);
    pair_.blend(piece_, data_.data(), data_.data(), arrived_.data(), sums_);
    return Status::ok();
  }
  // The result overwrites the vector that was sent. No flush is needed first: the partner can send
  // the result only after it has received all of the vector.
  Status fold_out() { return hvd::fold_out(context_, fold_, data_); }

  // After the level of distance p/2, piece() is this rank's 1/p of the result.
  Status reduce() {
    for (int distance = 1; distance < fold_.ranks(); distance *= 2) HVD_TRY(halve(distance));
    return Status::ok();
  }
  // Exchanges the results: repeats the levels in reverse order and rejoins the halves.
  Status gather() {
    for (int distance = fold_.ranks() / 2; distance >= 1; distance /= 2) {
      const VectorPart theirs = given_away_.back();
      given_away_.pop_back();
      HVD_TRY(exchange(distance, at(piece_), at(theirs)));
      piece_ = {std::min(piece_.first, theirs.first), piece_.count + theirs.count};
    }
    return Status::ok();
  }

 private:
  bool lower(int distance) const { return (context_.rank() & distance) == 0; }
  Bytes at(VectorPart piece) const {
    return data_.subspan(piece.first * element_, piece.count * element_);
  }
  Status exchange(int distance, ConstBytes out, Bytes in) {
    const int other = context_.rank() ^ distance;
    return context_.exchange(other, out, other, in);
  }

  // One level: keeps half of the piece, sends the other, and combines the kept half of both
  // vectors.
  Status halve(int distance) {
    const VectorPart low{piece_.first, piece_.count / 2};
    const VectorPart high{low.first + low.count, piece_.count - low.count};
    const VectorPart keep = lower(distance) ? low : high;
    const VectorPart give = lower(distance) ? high : low;
    const Bytes in = arrived_.first(keep.count * element_);
    HVD_TRY(exchange(distance, at(give), in));
    given_away_.push_back(give);
    piece_ = keep;

    std::byte* const mine = at(keep).data();
    const std::byte* const a = lower(distance) ? mine : in.data();
    const std::byte* const b = lower(distance) ? in.data() : mine;
    pair_.measure(keep, a, b, sums_);
    HVD_TRY(sum_over_block(distance));
    pair_.blend(keep, mine, a, b, sums_);
    return Status::ok();
  }

  // Adds up sums_ over the 2 · distance ranks that hold pieces of the same pair, by recursive
  // doubling. Both sides of an exchange add the same two numbers, so all ranks get the same bits.
  Status sum_over_block(int distance) {
    for (int hop = 1; hop <= distance; hop *= 2) {
      HVD_TRY(exchange(hop, std::as_bytes(std::span(sums_)),
                       std::as_writable_bytes(std::span(theirs_))));
      for (size_t tensor = 0; tensor < sums_.size(); ++tensor) {
        sums_[tensor].dot += theirs_[tensor].dot;
        sums_[tensor].a_squared += theirs_[tensor].a_squared;
        sums_[tensor].b_squared += theirs_[tensor].b_squared;
      }
    }
    return Status::ok();
  }

  const CollectiveContext& context_;
  const Bytes data_;
  const size_t element_;
  const AdasumPair pair_;
  std::vector<Products> sums_;    // one per tensor
  std::vector<Products> theirs_;  // the partner's
  const Fold fold_;
  VectorPart piece_;                    // the part of its block's vector that this rank holds
  std::vector<VectorPart> given_away_;  // one per level: the halves that partners hold
  Bytes arrived_;                       // scratch for received vectors
};

void scale(DType dtype, Bytes data, double factor) {
  if (factor != 1.0) kernels::scale(dtype, data.data(), data.size() / size_of(dtype), factor);
}

}  // namespace

Status halving_doubling_adasum(const CollectiveContext& context, Bytes data,
                               std::span<const size_t> counts, DType dtype, double prescale,
                               double postscale) {
  HVD_CHECK(std::accumulate(counts.begin(), counts.end(), size_t{0}) * size_of(dtype) ==
            data.size());
  Run run(context, data, counts, dtype);
  scale(dtype, data, prescale);
  HVD_TRY(run.fold_in());
  if (run.in_tree()) {
    HVD_TRY(run.reduce());
    scale(dtype, run.piece(), postscale);  // each rank scales its own piece only, before the gather
    HVD_TRY(run.gather());
  }
  return run.fold_out();
}

}  // namespace hvd
