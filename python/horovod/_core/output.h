// SPDX-License-Identifier: Apache-2.0
// Memory that the library allocated for a result because nobody knew its size before, and the
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
// From std::aligned_alloc: vectors load from it as from a framework's own tensors.
using Memory = std::unique_ptr<std::byte, FreeMemory>;

// Null if there is none left.
Memory allocate(size_t bytes);

// Adds the type Output to the module. False with an exception set.
bool add_output_type(PyObject* module);
// A new Output; null with an exception set.
PyObject* make_output(Memory memory, hvd_dtype dtype, const hvd_output& output);

}  // namespace hvd::python
