// SPDX-License-Identifier: Apache-2.0
#include "engine/fusion.h"

#include <gtest/gtest.h>

namespace hvd {
namespace {

class FusionTest : public ::testing::Test {
 protected:
  Response& add(RequestType type, int64_t elements, DType dtype = DType::kFloat32) {
    auto response = std::make_shared<Response>();
    response->request.type = type;
    response->request.dtype = dtype;
    response->request.shape = {elements};
    Response& added = *response;
    plan_.responses.push_back(std::move(response));
    return added;
  }
  Response& allreduce(int64_t elements, DType dtype = DType::kFloat32) {
    return add(RequestType::kAllreduce, elements, dtype);
  }

  // "0 2 | 1": the items of each batch.
  std::string batches() const {
    std::string text;
    for (const Batch& batch : fuse(plan_, options_)) {
      if (!text.empty()) text += "| ";
      for (const uint32_t item : batch.items) text += std::to_string(item) + " ";
    }
    return text;
  }

  Plan plan_;
  FusionOptions options_;
};

TEST_F(FusionTest, FillsBatchesUpToTheThreshold) {
  options_.threshold = 12;
  for (int i = 0; i < 5; ++i) allreduce(1);
  EXPECT_EQ(batches(), "0 1 2 | 3 4 ");
}

TEST_F(FusionTest, WithoutAThresholdFusesNothing) {
  options_.threshold = 0;
  allreduce(1);
  allreduce(1);
  EXPECT_EQ(batches(), "0 | 1 ");
}

TEST_F(FusionTest, RunsATensorOfAnySizeAlone) {
  options_.threshold = 8;
  allreduce(100);
  allreduce(1);
  allreduce(1);
  EXPECT_EQ(batches(), "0 | 1 2 ");
}

TEST_F(FusionTest, LooksPastWhatDoesNotMatchAndKeepsItsOrder) {
  allreduce(1);
  allreduce(1, DType::kFloat64);
  allreduce(1);
  allreduce(1, DType::kFloat64);
  EXPECT_EQ(batches(), "0 2 | 1 3 ");
}

TEST_F(FusionTest, LooksNoFurtherThanTheThreshold) {
  options_.threshold = 16;
  allreduce(1);
  allreduce(2, DType::kFloat64);  // 4 + 16 bytes are more than the threshold
  allreduce(1);
  EXPECT_EQ(batches(), "0 | 1 | 2 ");
}

TEST_F(FusionTest, KeepsApartWhatDiffersInOpOrFactors) {
  allreduce(1);
  allreduce(1).request.op = ReduceOp::kMax;
  allreduce(1).request.prescale = 2;
  allreduce(1).request.postscale = 2;
  allreduce(1).request.device = 0;
  EXPECT_EQ(batches(), "0 | 1 | 2 | 3 | 4 ");
}

TEST_F(FusionTest, NeverFusesBroadcastAlltoallAndBarrier) {
  for (const RequestType type :
       {RequestType::kBroadcast, RequestType::kAlltoall, RequestType::kBarrier}) {
    add(type, 1);
    add(type, 1);
  }
  EXPECT_EQ(batches(), "0 | 1 | 2 | 3 | 4 | 5 ");
}

TEST_F(FusionTest, CountsAllgathersByWhatAllRanksGather) {
  options_.threshold = 40;
  add(RequestType::kAllgather, 1).first_dimensions = {1, 4};
  add(RequestType::kAllgather, 1).first_dimensions = {1, 4};
  add(RequestType::kAllgather, 1).first_dimensions = {1, 0};
  EXPECT_EQ(batches(), "0 1 | 2 ");
}

TEST_F(FusionTest, LeavesErrorsOut) {
  allreduce(1).error = precondition("x");
  allreduce(1);
  EXPECT_EQ(batches(), "1 ");
}

TEST_F(FusionTest, StaysWithinGroupsIfAsked) {
  options_.within_groups_only = true;
  for (int i = 0; i < 5; ++i) allreduce(1);
  plan_.groups = {7, 0, 7, 0, 8};
  EXPECT_EQ(batches(), "0 2 | 1 | 3 | 4 ");
}

}  // namespace
}  // namespace hvd
