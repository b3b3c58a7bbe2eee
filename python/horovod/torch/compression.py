# SPDX-License-Identifier: Apache-2.0
"""Compression: casts tensors to 16 bits before a reduction and back after it."""

from __future__ import annotations

from typing import Any

import torch

from horovod.common.compression import Compressor, NoneCompressor


class _CastCompressor(Compressor):
    dtype: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        if not tensor.dtype.is_floating_point:
            return tensor, tensor.dtype
        return tensor.to(cls.dtype), tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor.to(ctx)


class FP16Compressor(_CastCompressor):
    """Sends floats as float16: three decimal digits, values up to 65504."""

    dtype = torch.float16


class BF16Compressor(_CastCompressor):
    """Sends floats as bfloat16: two decimal digits, the range of float32."""

    dtype = torch.bfloat16


class Compression:
    """The choices for the argument `compression`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
