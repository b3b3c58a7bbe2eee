"""DistributedOptimizer: an optimizer whose gradients are those of all ranks.

While backward is still at work, a hook on each parameter starts the reduction of its gradient;
`step` waits for them. Wrapping changes the class of the optimizer to a subclass of itself, so that
schedulers, scalers and state that were attached before stay attached.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Callable, Union

import torch

from horovod import _core
from horovod.common import settings
from horovod.common.basics import Adasum, Average, Sum
from horovod.common.process_sets import ProcessSet, global_process_set
from horovod.common.util import check_adasum, split_list
from horovod.torch import ops, submit
from horovod.torch.compression import Compression, Compressor
from horovod.torch.functions import broadcast_object

Tensor = torch.Tensor
Groups = Union[int, Sequence[Sequence[Tensor]], None]

__all__ = ["DistributedOptimizer"]


class _Bucket:
    """Parameters whose gradients are reduced together, mostly just one."""

    def __init__(self, name: str, parameters: list[Tensor], grouped: bool) -> None:
        self.name, self.parameters, self.grouped = name, parameters, grouped
        self.passes = dict.fromkeys(parameters, 0)  # backward passes since the last reduction
        self.finish: Callable[[], None] | None = None  # waits for the reduction that goes on

    def start_anew(self) -> None:
        self.passes = dict.fromkeys(self.parameters, 0)
        self.finish = None


class _Reduction:
    """How gradients are reduced: what DistributedOptimizer was told."""

    def __init__(
        self,
        compression: type[Compressor],
        op: int,
        predivide: float,
        sparse_as_dense: bool,
        process_set: ProcessSet,
    ) -> None:
        self.compression, self.op = compression, op
        self.sparse_as_dense, self.process_set = sparse_as_dense, process_set
        self.predivide = predivide

    def _op_and_factors(self) -> tuple[int, float, float]:
        if self.predivide == 1.0:
            return self.op, 1.0, 1.0
        # 1/f before the sum and f/size after it: the average, with smaller sums on the way.
        return Sum, 1.0 / self.predivide, self.predivide / (self.process_set.size() or 1)

    def start(self, bucket: _Bucket) -> Callable[[], None]:
        """Start reducing the gradients of a bucket; the function waits and puts them in place."""
        dense, sparse = [], []
        for parameter in bucket.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)  # it takes part all the same
            if parameter.grad.is_sparse and self.sparse_as_dense:
                parameter.grad = parameter.grad.to_dense()
            (sparse if parameter.grad.is_sparse else dense).append(parameter)
        waits = [self._start_sparse(p, f"{bucket.name}.{i}") for i, p in enumerate(sparse)]
        if dense:
            waits.append(self._start_dense(dense, bucket))

        def finish() -> None:
            for wait in waits:
                wait()

        return finish

    def _start_dense(self, parameters: list[Tensor], bucket: _Bucket) -> Callable[[], None]:
        pairs = [self.compression.compress(parameter.grad) for parameter in parameters]
        tensors = [tensor.contiguous() for tensor, _ in pairs]
        how = (*self._op_and_factors(), self.process_set.process_set_id)
        if bucket.grouped:
            handle = submit.grouped_allreduce_(tensors, bucket.name, *how)
        else:
            handle = submit.allreduce_(tensors[0], bucket.name, *how)

        def finish() -> None:
            _core.wait(handle)
            for parameter, tensor, (_, context) in zip(parameters, tensors, pairs):
                reduced = self.compression.decompress(tensor, context)
                if reduced is not parameter.grad:
                    parameter.grad.copy_(reduced)

        return finish

    def _start_sparse(self, parameter: Tensor, name: str) -> Callable[[], None]:
        op, prescale, postscale = self._op_and_factors()
        grad = parameter.grad if prescale == 1.0 else parameter.grad * prescale
        wait = ops.sparse_allreduce_async(grad, name, op, self.process_set)

        def finish() -> None:
            reduced = wait()
            parameter.grad = reduced if postscale == 1.0 else reduced * postscale

        return finish


class _Distributed:
    """What both kinds of distributed optimizer add to the user's class."""

    _hvd_base: type[torch.optim.Optimizer]

    def _hvd_parameters(self) -> list[Tensor]:
        return [
            parameter
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.requires_grad
        ]

    def _hvd_unhook(self) -> None:
        for hook in self._hvd_hooks:
            hook.remove()
        self._hvd_hooks = []

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add up their gradients before one reduction."""
        if passes <= 0:
            raise ValueError(f"backward_passes_per_step has to be positive, not {passes}")
        self.backward_passes_per_step = passes
        for bucket in self._hvd_buckets.values():
            bucket.start_anew()


class _GradientOptimizer(_Distributed):
    """Reduces gradients, then lets the user's optimizer take its step."""

    def _hvd_setup(
        self,
        names: dict[Tensor, str],
        reduction: _Reduction,
        backward_passes_per_step: int,
        groups: Groups,
    ) -> None:
        self._hvd_names = names
        self._hvd_reduction = reduction
        self.backward_passes_per_step = backward_passes_per_step
        self._hvd_hooks: list[Any] = []
        self._hvd_buckets: dict[Tensor, _Bucket] = {}
        self._hvd_synchronized = False
        self._hvd_synchronizes = True
        process_set = reduction.process_set
        alone = process_set.size() == 1 and not settings.flag("HOROVOD_ELASTIC")
        self._hvd_active = bool(process_set.included()) and not alone
        if self._hvd_active:
            for bucket in _make_buckets(names, groups, process_set):
                self._hvd_watch(bucket)

    def _hvd_watch(self, bucket: _Bucket) -> None:
        for parameter in bucket.parameters:
            self._hvd_buckets[parameter] = bucket
            self._hvd_hooks.append(parameter.register_post_accumulate_grad_hook(self._hvd_on_grad))

    def _hvd_on_grad(self, parameter: Tensor) -> None:
        bucket = self._hvd_buckets[parameter]
        if bucket.finish is not None or bucket.passes[parameter] >= self.backward_passes_per_step:
            raise AssertionError(
                f"the gradient of {self._hvd_names[parameter]} was computed more than "
                f"backward_passes_per_step={self.backward_passes_per_step} times before step() or "
                "synchronize(); pass a larger backward_passes_per_step to DistributedOptimizer"
            )
        bucket.passes[parameter] += 1
        if all(n >= self.backward_passes_per_step for n in bucket.passes.values()):
            bucket.finish = self._hvd_reduction.start(bucket)

    def _hvd_pending(self) -> bool:
        return any(bucket.finish is not None for bucket in self._hvd_buckets.values())

    def synchronize(self) -> None:
        """Wait until all gradients are reduced, for instance to clip them before `step`."""
        buckets = list(dict.fromkeys(self._hvd_buckets.values()))
        for bucket in buckets:
            if bucket.finish is None:  # no backward has come by on this rank
                bucket.finish = self._hvd_reduction.start(bucket)
        try:
            with torch.no_grad():
                for bucket in buckets:
                    bucket.finish()
        finally:
            for bucket in buckets:
                bucket.start_anew()
        self._hvd_synchronized = True

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within it `step` does not synchronize, because `synchronize` was called before."""
        if not self._hvd_synchronizes:
            raise AssertionError("skip_synchronize() cannot be nested")
        self._hvd_synchronizes = False
        try:
            yield
        finally:
            self._hvd_synchronizes = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the gradients of all ranks; a closure's are reduced each time it ran."""
        if self._hvd_active and self._hvd_synchronizes:
            if closure is None or self._hvd_pending():
                if self._hvd_synchronized:
                    warnings.warn(
                        "step() was called after synchronize(), and would synchronize again; put "
                        "it under `with optimizer.skip_synchronize():`",
                        UserWarning,
                        stacklevel=2,
                    )
                self.synchronize()
            if closure is not None:
                closure = self._hvd_synchronizing(closure)
        self._hvd_synchronized = False
        return super().step() if closure is None else super().step(closure)

    def _hvd_synchronizing(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        def synchronizing() -> Any:
            self._hvd_synchronized = False
            loss = closure()
            self.synchronize()
            return loss

        return synchronizing

    def zero_grad(self, *args: Any, **kwargs: Any) -> None:
        if self._hvd_pending():
            raise AssertionError(
                "zero_grad() was called between backward() and step() or synchronize(), while "
                "gradients are being reduced"
            )
        super().zero_grad(*args, **kwargs)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        number = len(self.param_groups) - 1
        for index, parameter in enumerate(self.param_groups[-1]["params"]):
            if parameter.requires_grad and parameter not in self._hvd_names:
                name = f"allreduce.noname.{number}.{index}"
                self._hvd_names[parameter] = name
                if self._hvd_active:
                    self._hvd_watch(_Bucket(name, [parameter], grouped=False))

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        for bucket in dict.fromkeys(self._hvd_buckets.values()):
            if bucket.finish is not None:
                bucket.finish()
            bucket.start_anew()
        self._hvd_synchronized = False
        return super().load_state_dict(*args, **kwargs)


def forget_reductions(optimizer: torch.optim.Optimizer) -> None:
    """Wait for no gradient that is on its way: the job has failed, or starts anew."""
    if isinstance(optimizer, _GradientOptimizer):
        for bucket in optimizer._hvd_buckets.values():
            bucket.start_anew()
        optimizer._hvd_synchronized = False


class _DeltaOptimizer(_Distributed):
    """Adasum: each rank takes its own step, and the changes of the weights are combined."""

    def _hvd_setup(
        self,
        names: dict[Tensor, str],
        reduction: _Reduction,
        backward_passes_per_step: int,
        groups: Groups,
    ) -> None:
        self._hvd_names = names
        self._hvd_compression = reduction.compression
        self._hvd_hooks: list[Any] = []
        self._hvd_buckets: dict[Tensor, _Bucket] = {}
        self.backward_passes_per_step = backward_passes_per_step

    def synchronize(self) -> None:
        """There is nothing to wait for before `step`."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        raise AssertionError("skip_synchronize() is of no use with op=hvd.Adasum")
        yield

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """The optimizer's own step, then the combination of all ranks' steps."""
        parameters = self._hvd_parameters()
        before = [parameter.detach().clone() for parameter in parameters]
        loss = super().step() if closure is None else super().step(closure)
        with torch.no_grad():
            pending = []
            for parameter, start in zip(parameters, before):
                delta, context = self._hvd_compression.compress(parameter.detach() - start)
                name = self._hvd_names.get(parameter)
                handle = submit.allreduce_(delta.contiguous(), name, Adasum, 1.0, 1.0, 0)
                pending.append((handle, parameter, start, context))
            for handle, parameter, start, context in pending:
                delta = self._hvd_compression.decompress(_core.wait(handle), context)
                parameter.copy_(start + delta)
        return loss


# Names and groups -------------------------------------------------------------------------------


def _name_parameters(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, Tensor]] | None
) -> dict[Tensor, str]:
    """The names under which gradients are reduced, the same on all ranks."""
    by_place = {
        parameter: f"allreduce.noname.{number}.{index}"
        for number, group in enumerate(optimizer.param_groups)
        for index, parameter in enumerate(group["params"])
    }
    given = None if named_parameters is None else list(named_parameters)
    if not given:
        return {p: name for p, name in by_place.items() if p.requires_grad}
    if any(not isinstance(pair, tuple) for pair in given):
        raise ValueError(
            "named_parameters has to be a sequence of tuples (name, parameter), as "
            "model.named_parameters() gives it"
        )
    seen: set[str] = set()
    twice = {name for name, _ in given if name in seen or seen.add(name)}
    if twice:
        raise ValueError(f"parameter names are not unique: {', '.join(sorted(twice))}")
    names = {parameter: name for name, parameter in given}
    unnamed = [place for parameter, place in by_place.items() if parameter not in names]
    if unnamed:
        raise ValueError(
            f"named_parameters names {len(given)} parameters and leaves out {len(unnamed)} of the "
            "optimizer's; pass the names of all of them"
        )
    return {p: names[p] for p in by_place if p.requires_grad}


def _check_groups(groups: Groups) -> None:
    if groups is None:
        return
    if isinstance(groups, bool) or not isinstance(groups, (int, list, tuple)):
        raise ValueError("groups has to be a number, or a list of lists of parameters")
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(f"groups cannot be negative: {groups}")
        return
    if any(not isinstance(group, (list, tuple)) for group in groups):
        raise ValueError("groups has to be a list of lists of parameters")
    seen: set[Tensor] = set()
    for parameter in (parameter for group in groups for parameter in group):
        if not isinstance(parameter, Tensor):
            raise ValueError(f"groups contains {parameter!r}, which is no parameter")
        if parameter in seen:
            raise ValueError("a parameter is in groups twice; each may be in one group only")
        seen.add(parameter)


def _make_buckets(
    names: dict[Tensor, str], groups: Groups, process_set: ProcessSet
) -> list[_Bucket]:
    if not groups:
        return [_Bucket(name, [parameter], grouped=False) for parameter, name in names.items()]
    if isinstance(groups, int):
        # Ranks may list their parameters in different orders, and then cut them differently.
        by_name = {name: parameter for parameter, name in names.items()}
        order = broadcast_object(
            list(by_name), process_set.ranks[0], "optimizer_groups", process_set
        )
        parts = split_list([by_name[name] for name in order], min(groups, len(order)))
        explicit = [part for part in parts if part]
    else:
        explicit = [[p for p in group if p in names] for group in groups]
        explicit = [group for group in explicit if group]
    together = {parameter for group in explicit for parameter in group}
    buckets = [_Bucket(names[group[0]], group, grouped=True) for group in explicit]
    return buckets + [
        _Bucket(name, [parameter], grouped=False)
        for parameter, name in names.items()
        if parameter not in together
    ]


# ------------------------------------------------------------------------------------------------


def _keep_scheduler(optimizer: torch.optim.Optimizer) -> None:
    """A scheduler that was made before has replaced `step` by one that is not distributed."""
    if optimizer.__dict__.pop("step", None) is None:
        return
    cls = type(optimizer)

    def step(*args: Any, **kwargs: Any) -> Any:
        optimizer._opt_called = True
        optimizer._step_count = getattr(optimizer, "_step_count", 0) + 1
        return cls.step(optimizer, *args, **kwargs)

    # With the two counts, what schedulers of different versions of PyTorch look for, lest they warn
    # that they were forgotten.
    step._wrapped_by_lr_sched = step._with_counter = True
    optimizer.step = step


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
    sparse_as_dense: turn sparse gradients into dense ones.
    process_set: the ranks that train together.

    Returns the optimizer, whose class is now a subclass of the one it had.
    """
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=hvd.Average")
    if backward_passes_per_step <= 0:
        raise ValueError(
            f"backward_passes_per_step has to be positive, not {backward_passes_per_step}"
        )
    if num_groups:
        warnings.warn(
            "the parameter num_groups is deprecated; pass groups=", DeprecationWarning, stacklevel=2
        )
        groups = num_groups if groups is None else groups
    _check_groups(groups)
    names = _name_parameters(optimizer, named_parameters)
    is_delta = op == Adasum and _core.size() > 1
    if is_delta:
        check_adasum(process_set.process_set_id)

    base = type(optimizer)
    if issubclass(base, _Distributed):
        optimizer._hvd_unhook()
        base = base._hvd_base
    kind = _DeltaOptimizer if is_delta else _GradientOptimizer
    optimizer.__class__ = type(base.__name__, (kind, base), {"_hvd_base": base})
    _keep_scheduler(optimizer)
    reduction = _Reduction(compression, op, gradient_predivide_factor, sparse_as_dense, process_set)
    optimizer._hvd_setup(names, reduction, backward_passes_per_step, groups)
    return optimizer
