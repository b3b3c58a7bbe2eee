// SPDX-License-Identifier: Apache-2.0
// Start and end, places and process sets, timeline: the functions of hvd.h that have no tensors.
#pragma once

#include "python.h"

namespace hvd::python {

PyMethodDef* job_methods();

}  // namespace hvd::python
