# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: an optimizer that steps with the reduced gradients of all ranks.

A hook on each parameter starts the reduction of its gradient while backward() still runs; `step`
waits for the reductions. Wrapping an optimizer changes its class to a subclass of that class, so
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
    """Reduces gradients, then calls the step of the user's optimizer.

    Programs derive from this class, override methods and read attributes, including these:

    _parameter_names      parameter -> name of its gradient
    _allreduce_delay      parameter -> backward passes that are left before its reduction
    _handles              parameter -> (handle, context of the compression) while it is reduced;
                          (None, None) after a backward pass that was not the last one
    _requires_update      parameters that `synchronize` reduces, with or without a gradient
    _grad_accs            the handles of the hooks
    _synchronized         whether `synchronize` was called since the last step
    _should_synchronize   whether `step` synchronizes

    A handle may also be a function that waits and returns the reduced gradient. Names that start
    with _hvd are private. No method may name its class; wrapping.py explains why.

    Not thread-safe: one thread trains, and the hooks run inside its backward().
    """

    _hvd_distributed = True

    # Defaults for a subclass whose own constructor does not call _hvd_set_up.
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
            # A subclass may hold nodes of autograd here, which own their hooks.
            if hasattr(holder, "remove"):
                holder.remove()
        self._grad_accs = []

    def _make_hook(self, p: Tensor) -> Callable[..., None]:
        """The hook that runs each time a backward pass has added to the gradient of `p`."""

        # Each access to a dict with tensors as keys costs 0.1 us: torch hashes them in Python.
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
            elif bucket := self._hvd_buckets.get(p) if self._hvd_buckets else None:
                self._handles[p] = (None, None)
                buckets.start_when_complete(self, bucket)
            else:
                self._handles[p] = self._allreduce_grad_async(p)

        return hook

    # Reductions -------------------------------------------------------------------------------

    _allreduce_grad_async = gradients.start  # (p) -> (handle, context)

    def synchronize(self) -> None:
        """Wait until all gradients are reduced, for instance to clip them before `step`.

        Raises HorovodInternalError if a reduction fails.
        """
        try:
            self._hvd_start_rest()
            gradients.finish(self)
        finally:
            self._hvd_forget()
        self._synchronized = True

    def _hvd_start_rest(self) -> None:
        """Start reductions that the hooks have not: parameters with too few backward passes here.

        The other ranks may have reduced these parameters, so this rank has to take part.
        """
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
        """Begin the next step without waiting for reductions that are still running."""
        self._handles.clear()
        passes = self.backward_passes_per_step
        self._allreduce_delay.update(dict.fromkeys(self._allreduce_delay, passes))
        self._synchronized = False

    # Public methods ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """A context in which `step` does not synchronize; call `synchronize` before it."""
        before = self._should_synchronize
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = before

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step with the reduced gradients.

        closure: as for the user's optimizer. Its gradients are reduced each time it has run.
        Returns the result of the user's optimizer, usually the loss of the closure.
        Raises HorovodInternalError if a reduction fails.
        """
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

    # The user's step() runs the hooks of register_step_pre_hook() and register_step_post_hook().
    # Without this mark torch also wraps our step(), for instance in load_state_dict(), and the
    # hooks would run twice.
    step.hooked = True

    def _hvd_is_reducing(self) -> bool:
        return any(handle is not None for handle, _ in self._handles.values())

    def _hvd_synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def synchronizing() -> Any:
            self._synchronized = False
            loss = closure()
            if not self._synchronized:  # the closure may have synchronized itself
                self.synchronize()
            return loss

        return synchronizing

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        """Clear the gradients, as the user's optimizer does.

        Raises AssertionError while gradients are being reduced.
        """
        if self._hvd_is_reducing():
            raise AssertionError(
                "zero_grad() was called between backward() and step() or synchronize(), while "
                "gradients are being reduced"
            )
        self._synchronized = False
        users(self).zero_grad(*args, **kwargs)

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Set how many backward passes add up their gradients before one reduction.

        Raises ValueError if `passes` is not positive.
        """
        check_passes(passes)
        self.backward_passes_per_step = passes
        self._allreduce_delay.update(dict.fromkeys(self._allreduce_delay, passes))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, whose gradients are reduced too; all ranks have to add the same ones."""
        users(self).add_param_group(param_group)
        if "_parameter_names" not in self.__dict__:
            return  # called by the constructor of the user's class, before _hvd_set_up
        number = len(self.param_groups) - 1
        for index, p in enumerate(self.param_groups[-1]["params"]):
            self._parameter_names.setdefault(p, name_of_place(number, index))
            if p.requires_grad and p not in self._allreduce_delay:
                self._allreduce_delay[p] = self.backward_passes_per_step
                if self._hvd_has_peers():
                    self._hvd_watch(p)

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Load a state, as the user's optimizer does, after all running reductions."""
        gradients.drain(self)
        self._hvd_forget()
        return users(self).load_state_dict(*args, **kwargs)


def forget_reductions(optimizer: torch.optim.Optimizer) -> None:
    """Forget running reductions of any optimizer, because the job has failed or restarts."""
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
    """Make an optimizer step with the reduced gradients of all ranks.

    optimizer: any optimizer of torch. It is changed in place.
    named_parameters: model.named_parameters(). Timelines and messages show the names. Without
        them, parameters are named by their place in optimizer.param_groups.
    compression: hvd.Compression.fp16 or bf16 sends half as many bytes for float32.
    backward_passes_per_step: backward passes that add up before gradients are reduced.
    op: hvd.Average, hvd.Sum, or hvd.Adasum. Adasum combines the steps of the ranks, not their
        gradients.
    gradient_predivide_factor: f divides gradients by f before the sum and by size / f after it.
        Needs op=hvd.Average.
    num_groups: deprecated; use groups.
    groups: the number of groups to reduce gradients in, or lists of parameters, one per group.
    sparse_as_dense: send sparse gradients as dense ones. The optimizer still gets sparse ones.
    process_set: the ranks that train together.

    Returns the same optimizer. Its class is now a subclass of its former class.
    Raises ValueError for arguments that do not fit together, or for names that are not unique or
    not complete.
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
