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

size_t bytes_of(hvd_dtype dtype) {
  switch (dtype) {
    case HVD_UINT8:
    case HVD_INT8:
    case HVD_BOOL: return 1;
    case HVD_UINT16:
    case HVD_INT16:
    case HVD_FLOAT16:
    case HVD_BFLOAT16: return 2;
    case HVD_INT32:
    case HVD_UINT32:
    case HVD_FLOAT32: return 4;
    case HVD_INT64:
    case HVD_UINT64:
    case HVD_FLOAT64: return 8;
  }
  return 0;
}

}  // namespace hvd::tensorflow
