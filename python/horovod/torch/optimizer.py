# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: an optimizer whose gradients are those of all ranks.

While backward is still at work, a hook on each parameter starts the reduction of its gradient;
`step` waits for them. Wrapping changes the class of the optimizer to a subclass of itself, so that
schedulers, scalers and state that were attached before stay attached.
"""

from __future__ import annotations

import contextlib
import types
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Callable

import torch

from horovod import _core
from horovod.common import settings
from horovod.common.basics import Adasum, Average
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import check_adasum, groups_of
from horovod.torch import buckets, gradients
from horovod.torch.adasum_optimizer import _DistributedAdasumOptimizer
from horovod.torch.buckets import Groups
from horovod.torch.compression import Compression, Compressor
from horovod.torch.options import Options, check_passes
from horovod.torch.parameters import name_of_place, name_parameters, trained
from horovod.torch.wrapping import Flat, users, wrap

Tensor = torch.Tensor

__all__ = ["DistributedOptimizer"]


class _DistributedOptimizer(torch.optim.Optimizer, metaclass=Flat):
    """Reduces gradients, then lets the user's optimizer take its step.

    Programs derive from it, override methods and read attributes, also those with an underscore:

    _parameter_names      parameter -> name of its gradient
    _allreduce_delay      parameter -> backward passes that are left before its reduction
    _handles              parameter -> (handle, context of the compression) while it is reduced;
                          (None, None) after a backward pass that was not the last one
    _requires_update      parameters that are reduced by `synchronize`, with or without a gradient
    _grad_accs            what holds the hooks
    _synchronized         whether `synchronize` was called since the last step
    _should_synchronize   whether `step` synchronizes

    A handle may also be a function, which waits and returns the reduced gradient. What starts with
    _hvd is ours alone. wrapping.py says why no method may name its class.
    """

    _hvd_distributed = True

    # For a subclass with a constructor of its own, which may set less.
    op = Average
    backward_passes_per_step = 1
    gradient_predivide_factor = 1.0
    sparse_as_dense = False
    process_set = global_process_set
    _compression = Compression.none
    _synchronized = False
    _should_synchronize = True
    _hvd_buckets = types.MappingProxyType({})  # parameter -> its Bucket
    _hvd_sparse_dims = types.MappingProxyType({})  # parameter -> sparse_dim() of its last gradient

    def __init__(
        self,
        params: Any,
        named_parameters: Iterable[tuple[str, Tensor]] | None,
        compression: type[Compressor],
        backward_passes_per_step: int = 1,
        op: int = Average,
        gradient_predivide_factor: float = 1.0,
        groups: Groups = None,
        sparse_as_dense: bool = False,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        options = Options(
            compression,
            backward_passes_per_step,
            op,
            gradient_predivide_factor,
            groups,
            sparse_as_dense,
            process_set,
        )
        users(self).__init__(params)
        self._hvd_set_up(name_parameters(self, named_parameters), options)

    def _hvd_set_up(self, names: dict[Tensor, str], options: Options) -> None:
        self._parameter_names = names
        self._compression = options.compression
        self.backward_passes_per_step = options.backward_passes_per_step
        self.op = options.op
        self.gradient_predivide_factor = options.gradient_predivide_factor
        self.sparse_as_dense = options.sparse_as_dense
        self.process_set = options.process_set
        self._handles: dict[Tensor, tuple[Any, Any]] = {}
        self._allreduce_delay = dict.fromkeys(trained(self), self.backward_passes_per_step)
        self._requires_update: set[Tensor] = set()
        self._grad_accs: list[Any] = []
        self._synchronized = False
        self._should_synchronize = True
        self._hvd_sparse_dims = {}
        self._hvd_buckets = {}
        if self._hvd_has_peers():
            own = {p: names[p] for p in trained(self)}
            self._hvd_buckets = buckets.make_buckets(own, options.groups, self.process_set)
            self._register_hooks()

    def _hvd_has_peers(self) -> bool:
        alone = self.process_set.size() == 1 and not settings.flag("HOROVOD_ELASTIC")
        return bool(self.process_set.included()) and not alone

    # Hooks ------------------------------------------------------------------------------------

    def _register_hooks(self) -> None:
        for p in trained(self):
            self._hvd_watch(p)

    def _hvd_watch(self, p: Tensor) -> None:
        self._requires_update.add(p)
        self._grad_accs.append(p.register_post_accumulate_grad_hook(self._make_hook(p)))

    def _hvd_unhook(self) -> None:
        for holder in self._grad_accs:
            if hasattr(holder, "remove"):  # else a node of autograd, which takes its hooks along
                holder.remove()
        self._grad_accs = []

    def _make_hook(self, p: Tensor) -> Callable[..., None]:
        """What runs when a backward pass has added to the gradient of `p`."""

        # A dict with tensors as keys costs 0.1 us per access: torch hashes them in Python.
        def hook(*_: Any) -> None:
            left = self._allreduce_delay[p] - 1
            if left < 0:
                raise AssertionError(
                    f"the gradient of {self._parameter_names.get(p)} was computed more than "
                    f"backward_passes_per_step={self.backward_passes_per_step} times before step() "
                    "or synchronize(); pass a larger backward_passes_per_step to "
                    "DistributedOptimizer"
                )
            self._allreduce_delay[p] = left
            if left > 0:
                self._handles[p] = (None, None)
            elif self._hvd_buckets and p in self._hvd_buckets:
                self._handles[p] = (None, None)
                buckets.start_when_complete(self, self._hvd_buckets[p])
            else:
                self._handles[p] = self._allreduce_grad_async(p)

        return hook

    # Reductions -------------------------------------------------------------------------------

    _allreduce_grad_async = gradients.start  # (p) -> (handle, context)

    def synchronize(self) -> None:
        """Wait until all gradients are reduced, for instance to clip them before `step`."""
        try:
            self._hvd_start_rest()
            gradients.finish(self)
        finally:
            self._hvd_forget()
        self._synchronized = True

    def _hvd_start_rest(self) -> None:
        """Start the reductions for which not enough backward passes have come by on this rank."""
        rest = [p for p, (handle, _) in self._handles.items() if handle is None]
        rest += self._requires_update.difference(self._handles)
        for p in rest:
            if p in self._handles and self._handles[p][0] is not None:
                continue  # it was started with its bucket
            if p in self._hvd_buckets:
                buckets.start(self, self._hvd_buckets[p])
            else:
                self._handles[p] = self._allreduce_grad_async(p)

    def _hvd_forget(self) -> None:
        """Begin the next step; nothing waits any more for what is on its way."""
        self._handles.clear()
        passes = self.backward_passes_per_step
        self._allreduce_delay.update(dict.fromkeys(self._allreduce_delay, passes))
        self._synchronized = False

    # What users call --------------------------------------------------------------------------

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it `step` does not synchronize, because `synchronize` was called before."""
        before = self._should_synchronize
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = before

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the gradients of all ranks; a closure's are reduced each time it ran."""
        if self._should_synchronize:
            if closure is None or self._hvd_is_reducing():
                if self._synchronized:
                    warnings.warn(
                        "optimizer.step() called without optimizer.skip_synchronize() context "
                        "after optimizer.synchronize(): all gradients are reduced a second time; "
                        "write `with optimizer.skip_synchronize(): optimizer.step()`",
                        UserWarning,
                        stacklevel=2,
                    )
                self.synchronize()
            if closure is not None:
                closure = self._hvd_synchronizing(closure)
        self._synchronized = False
        plain = users(self).step
        return plain() if closure is None else plain(closure)

    # The user's step() calls the hooks of torch's register_step_pre_hook and the like. Without this
    # torch would also let ours call them, for instance after load_state_dict().
    step.hooked = True

    def _hvd_is_reducing(self) -> bool:
        return any(handle is not None for handle, _ in self._handles.values())

    def _hvd_synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def synchronizing() -> Any:
            self._synchronized = False
            loss = closure()
            if not self._synchronized:  # else the closure has done so itself
                self.synchronize()
            return loss

        return synchronizing

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        if self._hvd_is_reducing():
            raise AssertionError(
                "zero_grad() was called between backward() and step() or synchronize(), while "
                "gradients are being reduced"
            )
        self._synchronized = False
        users(self).zero_grad(*args, **kwargs)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add up their gradients before one reduction."""
        check_passes(passes)
        self.backward_passes_per_step = passes
        self._allreduce_delay.update(dict.fromkeys(self._allreduce_delay, passes))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        users(self).add_param_group(param_group)
        if "_parameter_names" not in self.__dict__:
            return  # the constructor of the user's class adds the first groups
        number = len(self.param_groups) - 1
        for index, p in enumerate(self.param_groups[-1]["params"]):
            self._parameter_names.setdefault(p, name_of_place(number, index))
            if p.requires_grad and p not in self._allreduce_delay:
                self._allreduce_delay[p] = self.backward_passes_per_step
                if self._hvd_has_peers():
                    self._hvd_watch(p)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        gradients.drain(self)
        self._hvd_forget()
        return users(self).load_state_dict(*args, **kwargs)


def forget_reductions(optimizer: torch.optim.Optimizer) -> None:
    """Wait for no gradient that is on its way: the job has failed, or starts again."""
    if hasattr(optimizer, "_hvd_forget"):
        optimizer._hvd_forget()


def DistributedOptimizer(  # noqa: N802
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, Tensor]] | None = None,
    compression: type[Compressor] = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Let an optimizer step with the gradients of all ranks.

    named_parameters: model.named_parameters(); names show in timelines and messages.
    compression: hvd.Compression.fp16 or bf16 to send half as many bytes.
    backward_passes_per_step: backward passes that add up before gradients are reduced.
    op: hvd.Average, hvd.Sum, or hvd.Adasum, which combines the ranks' steps instead.
    gradient_predivide_factor: part of the division by the number of ranks that comes first.
    groups: how many groups to reduce gradients in, or the groups as lists of parameters.
    sparse_as_dense: send sparse gradients as dense ones; the optimizer gets sparse ones.
    process_set: the ranks that train together.

    Returns the optimizer, whose class is now a subclass of the one it had.
    """
    options = Options(
        compression,
        backward_passes_per_step,
        op,
        gradient_predivide_factor,
        groups_of(num_groups, groups),
        sparse_as_dense,
        process_set,
    )
    names = name_parameters(optimizer, named_parameters)
    combines_steps = op == Adasum and _core.size() > 1
    if combines_steps:
        check_adasum(process_set.process_set_id)
    wrap(optimizer, _DistributedAdasumOptimizer if combines_steps else _DistributedOptimizer)
    optimizer._hvd_set_up(names, options)
    return optimizer
