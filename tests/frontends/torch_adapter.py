# SPDX-License-Identifier: Apache-2.0
"""PyTorch for conformance.py."""

import conformance
import horovod.torch as hvd
import numpy as np
import torch


class Frontend:
    hvd = hvd
    dtypes = (
        "uint8",
        "int8",
        "int16",
        "int32",
        "int64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
    )
    InvalidArgument = ValueError
    Internal = hvd.HorovodInternalError

    def start(self):
        hvd.init()
        size = hvd.size()
        hvd.shutdown()
        sets = conformance.static_sets(size) if size > 1 else []
        self.sets = [hvd.ProcessSet(ranks) for ranks in sets]
        hvd.init(process_sets=self.sets)

    def barrier(self, name):
        hvd.barrier()

    def tensor(self, array, dtype=None):
        tensor = torch.tensor(np.asarray(array))
        return tensor if dtype is None else tensor.to(getattr(torch, dtype))

    def array(self, tensor):
        if isinstance(tensor, int):
            return tensor
        wide = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
        return wide.detach().numpy()

    def gradient(self, function, array):
        x = torch.tensor(array, requires_grad=True)
        y = function(x)
        weights = torch.arange(1, y.numel() + 1, dtype=y.dtype).view(y.shape)
        # allgather: the rows of all ranks are one long row
        (y * weights).sum().backward()
        return x.grad.numpy()
