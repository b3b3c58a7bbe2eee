// SPDX-License-Identifier: Apache-2.0
#include "dtypes.h"

namespace hvd::tensorflow {

bool to_dtype(TF_DataType type, hvd_dtype& dtype) {
  switch (type) {
    case TF_FLOAT: dtype = HVD_FLOAT32; return true;
    case TF_DOUBLE: dtype = HVD_FLOAT64; return true;
    case TF_INT32: dtype = HVD_INT32; return true;
    case TF_UINT8: dtype = HVD_UINT8; return true;
    case TF_INT16: dtype = HVD_INT16; return true;
    case TF_INT8: dtype = HVD_INT8; return true;
    case TF_INT64: dtype = HVD_INT64; return true;
    case TF_BOOL: dtype = HVD_BOOL; return true;
    case TF_BFLOAT16: dtype = HVD_BFLOAT16; return true;
    case TF_UINT16: dtype = HVD_UINT16; return true;
    case TF_HALF: dtype = HVD_FLOAT16; return true;
    case TF_UINT32: dtype = HVD_UINT32; return true;
    case TF_UINT64: dtype = HVD_UINT64; return true;
  }
  return false;
}

}  // namespace hvd::tensorflow
