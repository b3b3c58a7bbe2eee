# SPDX-License-Identifier: Apache-2.0
"""Base classes of compressions. Each front end adds the ones that cast its tensors."""

from __future__ import annotations

from typing import Any


class Compressor:
    """A compression: two static functions. Users may write their own."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        """Return the tensor to send, and a context for decompress."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Return the reduced tensor in its first form; `ctx` is from compress."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Does not change tensors."""

    @staticmethod
    def compress(tensor: Any) -> tuple[Any, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        return tensor
