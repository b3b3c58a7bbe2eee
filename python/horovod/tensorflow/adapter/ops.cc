// SPDX-License-Identifier: Apache-2.0
#include "ops.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace hvd::tensorflow {
namespace {

constexpr std::array kCollectiveOps = {
    CollectiveOp{"HorovodAllreduce", HVD_ALLREDUCE, false},
    CollectiveOp{"HorovodGroupedAllreduce", HVD_ALLREDUCE, true},
    CollectiveOp{"HorovodAllgather", HVD_ALLGATHER, false},
    CollectiveOp{"HorovodGroupedAllgather", HVD_ALLGATHER, true},
    CollectiveOp{"HorovodBroadcast", HVD_BROADCAST, false},
    CollectiveOp{"HorovodGroupedBroadcast", HVD_BROADCAST, true},
    CollectiveOp{"HorovodAlltoall", HVD_ALLTOALL, false},
    CollectiveOp{"HorovodReducescatter", HVD_REDUCESCATTER, false},
    CollectiveOp{"HorovodGroupedReducescatter", HVD_REDUCESCATTER, true},
    CollectiveOp{"HorovodJoin", HVD_JOIN, false},
};

// -1 without a job, or for a process set that does not exist; likewise included_in().
int size_of(int process_set) {
  if (process_set == HVD_GLOBAL_SET) return hvd_size();
  int32_t count = -1;
  return hvd_process_set_ranks(process_set, nullptr, 0, &count) == HVD_OK ? count : -1;
}

int included_in(int process_set) {
  const int count = size_of(process_set);
  if (count < 0) return -1;
  std::vector<int32_t> ranks(static_cast<size_t>(count));
  int32_t found = 0;
  if (hvd_process_set_ranks(process_set, ranks.data(), count, &found) != HVD_OK) return -1;
  return std::find(ranks.begin(), ranks.end(), hvd_rank()) != ranks.end() ? 1 : 0;
}

constexpr std::array kPlaceOps = {
    PlaceOp{"HorovodSize", size_of, true},
    PlaceOp{"HorovodProcessSetIncluded", included_in, true},
    PlaceOp{"HorovodRank", [](int) { return hvd_rank(); }, false},
    PlaceOp{"HorovodLocalRank", [](int) { return hvd_local_rank(); }, false},
    PlaceOp{"HorovodLocalSize", [](int) { return hvd_local_size(); }, false},
};

// The types of to_dtype(), in the syntax of attribute specifications.
constexpr const char* kTypes =
    "{uint8, int8, uint16, int16, uint32, uint64, int32, int64, half, bfloat16, float, double, "
    "bool}";

// Shapes -----------------------------------------------------------------------------------------

// Output i has the shape of input i, for allreduce and broadcast. Without this function all shapes
// in a graph would be unknown, and Keras could not build layers on the result.
void shapes_of_inputs(TF_ShapeInferenceContext* context, TF_Status* status) {
  const auto count = static_cast<int>(api.ShapeInferenceContextNumInputs(context));
  for (int i = 0; i < count && api.GetCode(status) == TF_OK; ++i) {
    TF_ShapeHandle* shape = api.NewShapeHandle();
    api.ShapeInferenceContextGetInput(context, i, shape, status);
    if (api.GetCode(status) == TF_OK) {
      api.ShapeInferenceContextSetOutput(context, i, shape, status);
    }
    api.DeleteShapeHandle(shape);
  }
}

// The number of rows is known only after the ranks have negotiated. Python sets the other
// dimensions.
void unknown_shapes(TF_ShapeInferenceContext* context, TF_Status* status) {
  api.ShapeInferenceContextSetUnknownShape(context, status);
}

void scalar_shape(TF_ShapeInferenceContext* context, TF_Status* status) {
  TF_ShapeHandle* shape = api.ShapeInferenceContextScalar(context);
  api.ShapeInferenceContextSetOutput(context, 0, shape, status);
  api.DeleteShapeHandle(shape);
}

// Definitions ------------------------------------------------------------------------------------

// Builds and registers one operation. finish() has to be called exactly once: it passes the builder
// to TensorFlow.
class Definition {
 public:
  explicit Definition(const char* name) : builder_(api.NewOpDefinitionBuilder(name)) {
    api.OpDefinitionBuilderSetIsStateful(builder_, true);
  }
  void input(const char* spec) { api.OpDefinitionBuilderAddInput(builder_, spec); }
  void output(const char* spec) { api.OpDefinitionBuilderAddOutput(builder_, spec); }
  void attribute(const std::string& name, const std::string& spec) {
    api.OpDefinitionBuilderAddAttr(builder_, (name + ": " + spec).c_str());
  }
  void shapes(TF_InferShape function) {
    api.OpDefinitionBuilderSetShapeInferenceFunction(builder_, function);
  }
  std::string finish() {
    Report report;
    api.RegisterOpDefinition(builder_, report);
    return report.ok() ? std::string() : report.message();
  }

 private:
  TF_OpDefinitionBuilder* builder_;  // TensorFlow owns it after RegisterOpDefinition
};

// Inputs and outputs. "T" is a type, or for groups a list of types, which TensorFlow derives from
// the inputs.
void define_tensors(const CollectiveOp& op, Definition& definition) {
  definition.input(op.groups ? "tensors: T" : "tensor: T");
  definition.output(op.groups ? "outputs: T" : "output: T");
  definition.attribute("T", op.groups ? std::string("list(") + kTypes + ") >= 1" : kTypes);
  if (op.collective == HVD_ALLTOALL) {
    definition.input("splits: int32");
    definition.output("received_splits: int32");
  }
  const bool keeps_shapes = op.collective == HVD_ALLREDUCE || op.collective == HVD_BROADCAST;
  definition.shapes(keeps_shapes ? shapes_of_inputs : unknown_shapes);
}

std::string define(const CollectiveOp& op) {
  Definition definition(op.name);
  if (op.collective == HVD_JOIN) {
    definition.output("last_joined: int32");
    definition.shapes(scalar_shape);
    return definition.finish();
  }
  define_tensors(op, definition);
  if (reduces(op.collective)) {
    definition.attribute(kReduceOp, "int");
    definition.attribute(kPrescale, "float = 1.0");
    definition.attribute(kPostscale, "float = 1.0");
  }
  if (op.collective == HVD_BROADCAST) definition.attribute(kRoot, "int");
  definition.attribute(kProcessSet, "int = 0");
  definition.attribute(kTensorName, "string = ''");
  definition.attribute(kNumbered, "bool = false");
  definition.attribute(kIgnoreScope, "bool = false");
  return definition.finish();
}

std::string define(const PlaceOp& op) {
  Definition definition(op.name);
  definition.output("value: int32");
  if (op.of_set) definition.attribute(kProcessSet, "int = 0");
  definition.shapes(scalar_shape);
  return definition.finish();
}

}  // namespace

std::span<const CollectiveOp, kCollectiveOpCount> collective_ops() { return kCollectiveOps; }
std::span<const PlaceOp, kPlaceOpCount> place_ops() { return kPlaceOps; }

std::string register_ops() {
  for (const CollectiveOp& op : kCollectiveOps) {
    if (std::string problem = define(op); !problem.empty()) return problem;
  }
  for (const PlaceOp& op : kPlaceOps) {
    if (std::string problem = define(op); !problem.empty()) return problem;
  }
  return {};
}

}  // namespace hvd::tensorflow
