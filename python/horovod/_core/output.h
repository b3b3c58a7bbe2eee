// SPDX-License-Identifier: Apache-2.0
// Memory that the library allocates for results whose size is known only after negotiation, and the
// Python object that hands it to a framework without a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "capi/hvd.h"
#include "python.h"

namespace hvd::python {

struct FreeMemory {
  void operator()(std::byte* data) const { std::free(data); }  // NOLINT(*-no-malloc)
};
// From std::aligned_alloc, aligned to 64 bytes like a framework's own tensors, for vector loads.
using Memory = std::unique_ptr<std::byte, FreeMemory>;

// Null if there is no memory. Needs no GIL: threads of the library call it.
Memory allocate(size_t bytes);

// Adds the type Output to the module. False with an exception set.
bool add_output_type(PyObject* module);
// A new Output that owns `memory`; null with an exception set. `output` has the shape in elements.
PyObject* make_output(Memory memory, hvd_dtype dtype, const hvd_output& output);

}  // namespace hvd::python
