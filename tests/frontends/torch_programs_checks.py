# SPDX-License-Identifier: Apache-2.0
"""Undocumented ways in which programs and libraries use the PyTorch front end.

Each check is a small program of that kind: wrappers around optimizers, subclasses of
_DistributedOptimizer, closures, filters on warnings.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings

import horovod.torch as hvd
import torch
from conformance import raises
from suite import Skip
from torch import nn
from torch_checks import (
    OPTIMIZERS,
    STEPS,
    batch,
    close,
    loss_of,
    model,
    same_everywhere,
    train_alone,
    weights_of,
    whole_batch,
)


def sgd(parameters, lr=0.1):
    return torch.optim.SGD(parameters, lr=lr)


def train(optimizer, net, passes=1):
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(passes):
            loss_of(net, batch(passes * step + part, hvd.rank())).backward()
        optimizer.step()
    return weights_of(net)


def sets_of(frontend):
    """The set of all ranks, and the half with this rank; with two ranks, a set of one."""
    return [hvd.global_process_set, *(s for s in frontend.sets if s.included())]


# Names --------------------------------------------------------------------------------------------


def check_submodules_come_with_the_package(frontend):
    # Has to run before any check that imports the submodules by name.
    submodules = ["mpi_ops", "compression", "functions", "optimizer", "sync_batch_norm", "elastic"]
    for name in submodules:
        assert name in vars(hvd), name
        assert getattr(hvd, name) is importlib.import_module(f"horovod.torch.{name}")
    ops = hvd.mpi_ops
    assert (ops.Average, ops.Sum, ops.Adasum) == (hvd.Average, hvd.Sum, hvd.Adasum)
    assert hvd.torch is torch
    assert ops.HorovodInternalError is hvd.HorovodInternalError
    assert (ops.add_process_set, ops.remove_process_set, ops.ProcessSet) == (
        hvd.add_process_set,
        hvd.remove_process_set,
        hvd.ProcessSet,
    )
    assert ops._basics.rank() == ops.rank() == hvd.rank() and ops.is_homogeneous()
    assert ops.handle_average_backwards_compatibility(None, None) == hvd.Average
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert ops.handle_average_backwards_compatibility(None, False) == hvd.Sum


# Libraries that look at a wrapped optimizer -------------------------------------------------------


class ManualOptimizer:
    """As a library does for manual optimization: it looks like the user's optimizer."""

    def __init__(self, optimizer, base):
        self.__dict__ = {key: value for key, value in vars(optimizer).items() if key != "step"}
        self.__class__ = type(f"Manual{type(optimizer).__name__}", (type(self), base), {})
        self._optimizer = optimizer

    def step(self, closure=None):
        return self._optimizer.step(closure)

    def zero_grad(self):
        super().zero_grad(set_to_none=False)


def check_libraries_derive_wrappers_from_the_optimizers_class(frontend):
    for level in ("user's", "ours"):
        net = model()
        optimizer = hvd.DistributedOptimizer(
            OPTIMIZERS["sgd"](net.parameters()), net.named_parameters()
        )
        assert type(optimizer).__bases__ == (torch.optim.SGD,)
        assert "horovod" in str(type(optimizer)) and hasattr(optimizer, "_allreduce_grad_async")
        base = torch.optim.SGD if level == "user's" else type(optimizer)
        manual = ManualOptimizer(optimizer, base)
        assert isinstance(manual, torch.optim.Optimizer)
        close(train(manual, net), train_alone(OPTIMIZERS["sgd"]))


def check_wrapping_again_starts_from_the_users_class(frontend):
    net = model()
    optimizer = OPTIMIZERS["sgd"](net.parameters())
    for op in (hvd.Sum, hvd.Average):
        optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters(), op=op)
        assert type(optimizer).__bases__ == (torch.optim.SGD,)
    close(train(optimizer, net), train_alone(OPTIMIZERS["sgd"]))


def check_hooks_of_torch_run_once_a_step(frontend):
    net = model()
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
    optimizer.load_state_dict(optimizer.state_dict())  # makes torch inspect step() again
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    train(optimizer, net)
    assert calls == ["before", "after"] * STEPS


# Subclasses of _DistributedOptimizer --------------------------------------------------------------


def make(subclass, optimizer, *options, **more):
    """As programs do: a class of the user's class with the methods of the subclass."""
    cls = type(type(optimizer).__name__, (type(optimizer),), dict(subclass.__dict__))
    return cls(optimizer.param_groups, *options, **more)


class Doubling(hvd.optimizer._DistributedOptimizer):
    """Overrides one method."""

    def _allreduce_grad_async(self, p):
        tensor, context = self._compression.compress(2 * p.grad)
        name = f"doubled.{self._parameter_names[p]}"
        handle = hvd.allreduce_async_(tensor, name=name, op=self.op, process_set=self.process_set)
        return handle, context


class Counting(Doubling):
    """Derives from a subclass; its hooks count their calls."""

    def _make_hook(self, p):
        hook = Doubling._make_hook(self, p)

        def counting(*args):
            self.hooks_run = getattr(self, "hooks_run", 0) + 1
            hook(*args)

        return counting


class OwnConstructor(hvd._DistributedOptimizer):
    """Has its own constructor and hooks, and waits for handles itself."""

    def __init__(self, params, named_parameters, compression, passes):
        super(self.__class__, self).__init__(params)
        self._compression = compression
        self._parameter_names = {p: name for name, p in named_parameters}
        self.backward_passes_per_step = passes
        self._allreduce_delay = dict.fromkeys(self._parameter_names, passes)
        self._handles, self._grad_accs, self._requires_update = {}, [], set()
        self._synchronized, self._should_synchronize = False, True
        if hvd.size() > 1:
            self._register_hooks()

    def _register_hooks(self):
        for p in (p for group in self.param_groups for p in group["params"]):
            p.grad = torch.zeros_like(p)
            self._requires_update.add(p)
            node = p.expand_as(p).grad_fn.next_functions[0][0]
            node.register_hook(self._make_hook(p))
            self._grad_accs.append(node)


class OwnWait(OwnConstructor):
    def synchronize(self):
        for p in self._requires_update:
            if self._handles.get(p, (None, None))[0] is None:
                self._handles[p] = self._allreduce_grad_async(p)
        for p, (handle, context) in self._handles.items():
            reduced = self._compression.decompress(hvd.synchronize(handle), context)
            p.grad.copy_(reduced)
            self._allreduce_delay[p] = self.backward_passes_per_step
        self._handles.clear()
        self._synchronized = True


def check_subclasses_override_what_they_like(frontend):
    alone = train_alone(sgd)
    for subclass in (Doubling, Counting):
        for process_set in sets_of(frontend):
            net = model()
            options = (net.named_parameters(), hvd.Compression.fp16)
            optimizer = make(subclass, sgd(net.parameters()), *options, process_set=process_set)
            assert type(optimizer).__bases__ == (torch.optim.SGD,)
            together = train(optimizer, net)
            has_peers = process_set.size() > 1  # otherwise nothing is reduced or doubled
            if process_set is hvd.global_process_set:
                wanted = train_alone(lambda p: sgd(p, 0.2)) if has_peers else alone
                close(together, wanted, 5e-3)
            hooks_run = STEPS * 4 if has_peers and subclass is Counting else 0
            assert getattr(optimizer, "hooks_run", 0) == hooks_run


def check_subclasses_may_have_constructors_and_hooks_of_their_own(frontend):
    for subclass in (OwnConstructor, OwnWait):
        for passes in (1, 2):
            net = model()
            options = (net.named_parameters(), hvd.Compression.none, passes)
            optimizer = make(subclass, OPTIMIZERS["sgd"](net.parameters()), *options)
            together = train(optimizer, net, passes)
            close(together, train_alone(OPTIMIZERS["sgd"], passes), 2e-5)
            if hvd.size() > 1:
                loss_of(net, batch(0, 0)).backward()
                assert set(optimizer._handles) == set(net.parameters())
                optimizer.synchronize()
                raises(ValueError, "positive", optimizer.set_backward_passes_per_step, 0)
    # After wrapping again, no old hook is left.
    net = model()
    options = (net.named_parameters(), hvd.Compression.none, 1)
    optimizer = make(OwnConstructor, OPTIMIZERS["sgd"](net.parameters()), *options)
    optimizer.param_groups[0]["momentum"] = 0.9
    optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters())
    close(train(optimizer, net), train_alone(OPTIMIZERS["sgd"]))


def check_the_names_that_programs_read_are_those_at_work(frontend):
    net = model()
    net[0].bias.requires_grad_(False)
    optimizer = hvd.DistributedOptimizer(
        sgd(net.parameters()),
        net.named_parameters(),
        compression=hvd.Compression.bf16,
        backward_passes_per_step=2,
    )
    weight = net[2].weight
    assert optimizer._parameter_names == {p: name for name, p in net.named_parameters()}
    assert (optimizer._compression, optimizer.op) == (hvd.Compression.bf16, hvd.Average)
    assert (optimizer.gradient_predivide_factor, optimizer.backward_passes_per_step) == (1.0, 2)
    assert (optimizer._synchronized, optimizer._should_synchronize) == (False, True)
    has_peers = hvd.size() > 1
    trained = {p for p in net.parameters() if p.requires_grad} if has_peers else set()
    assert optimizer._requires_update == trained and len(optimizer._grad_accs) == len(trained)
    loss_of(net, batch(0, hvd.rank())).backward()
    if has_peers:
        assert optimizer._allreduce_delay[weight] == 1 and set(optimizer._handles) == trained
        assert optimizer._handles[weight] == (None, None)
    loss_of(net, batch(0, hvd.rank())).backward()
    if has_peers:
        handle, context = optimizer._handles[weight]
        assert type(handle) is int and context == torch.float32
        optimizer.op = hvd.Sum  # takes effect in the next reduction
    optimizer.synchronize()
    assert optimizer._synchronized and not optimizer._handles
    assert optimizer._allreduce_delay[weight] == 2
    # Without them, only computed gradients are reduced.
    weight.grad = None
    optimizer._requires_update = set()
    net[0](torch.ones(1, 6)).sum().backward()
    with optimizer.skip_synchronize():
        assert not optimizer._should_synchronize
    optimizer.synchronize()
    assert weight.grad is None


def check_adasums_optimizer_has_the_users_class_as_its_base(frontend):
    net = model()
    plain = sgd(net.parameters())
    options = {"named_parameters": net.named_parameters(), "op": hvd.Adasum}
    if hvd.size() == 3:
        raises(NotImplementedError, "power of two", hvd.DistributedOptimizer, plain, **options)
        assert type(plain) is torch.optim.SGD  # it is unchanged and usable
        return
    optimizer = hvd.DistributedOptimizer(plain, **options)
    assert type(optimizer).__bases__ == (torch.optim.SGD,)
    assert "horovod" in str(type(optimizer)) and hasattr(optimizer, "_allreduce_grad_async")
    train(ManualOptimizer(optimizer, torch.optim.SGD), net)
    assert same_everywhere(weights_of(net))


# Sparse gradients ---------------------------------------------------------------------------------


def check_sparse_gradients_stay_sparse_for_the_optimizer(frontend):
    size, rank = hvd.size(), hvd.rank()

    def rows_of(step, rank):  # in the first step the last rank has no gradient at all
        return [] if step == 0 and rank == size - 1 and size > 1 else [rank, size]

    def table_and(optimizer):
        torch.manual_seed(0)
        table = nn.Embedding(size + 2, 3, sparse=True)
        return table, optimizer(table.parameters())

    makers = (torch.optim.SparseAdam, torch.optim.Adagrad)
    for maker in makers:
        alone, plain = table_and(maker)
        for step in range(3):
            plain.zero_grad()
            rows = [row for r in range(size) for row in rows_of(step, r)]
            (alone(torch.tensor(rows)).square().sum() / size).backward()
            plain.step()
        options = [
            {"sparse_as_dense": True},
            {"sparse_as_dense": True, "groups": 1, "gradient_predivide_factor": 2.0},
            {"sparse_as_dense": False},
        ]
        # Only SparseAdam is known to need sparse gradients before it has seen one.
        for option in options if maker is torch.optim.SparseAdam else options[:1]:
            table, optimizer = table_and(maker)
            optimizer = hvd.DistributedOptimizer(optimizer, table.named_parameters(), **option)
            for step in range(3):
                optimizer.zero_grad()
                rows = rows_of(step, rank)
                if rows:
                    table(torch.tensor(rows)).square().sum().backward()
                optimizer.synchronize()
                assert table.weight.grad.is_sparse or maker is not torch.optim.SparseAdam
                with optimizer.skip_synchronize():
                    optimizer.step()
            close(table.weight.detach(), alone.weight.detach())


# synchronize, closures and warnings ---------------------------------------------------------------


def check_the_warning_has_the_words_that_scripts_filter_on(frontend):
    net = model()
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())

    def step(words):
        loss_of(net, batch(0, hvd.rank())).backward()
        optimizer.synchronize()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message=words, category=UserWarning)
            optimizer.step()

    step(r"optimizer\.step\(\) called without optimizer\.skip_synchronize\(\) context")
    raises(UserWarning, "skip_synchronize", step, "other words")


def closure_of(optimizer, net, data, synchronizes):
    def closure():
        optimizer.zero_grad()
        loss = loss_of(net, data)
        loss.backward()
        if synchronizes:
            optimizer.synchronize()
        return loss

    return closure


def check_closures_may_synchronize_themselves(frontend):
    # With op=Sum a gradient that is reduced twice differs from one that is reduced once.
    makers = {
        "sgd": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
        "lbfgs": lambda p, lr: torch.optim.LBFGS(p, lr=lr, max_iter=3),
    }
    for name, maker in makers.items():
        op = hvd.Sum if name == "sgd" else hvd.Average
        alone = model()
        plain = maker(alone.parameters(), 0.1)
        for step in range(STEPS):
            plain.step(closure_of(plain, alone, whole_batch(step), False))
        for held in (True, False):
            net = model()
            optimizer = hvd.DistributedOptimizer(
                maker(net.parameters(), 0.1 / (hvd.size() if op == hvd.Sum else 1)),
                net.named_parameters(),
                op=op,
            )
            with contextlib.ExitStack() as stack, warnings.catch_warnings():
                warnings.simplefilter("error")
                if held:
                    stack.enter_context(optimizer.skip_synchronize())
                for step in range(STEPS):
                    data = batch(step, hvd.rank())
                    optimizer.step(closure_of(optimizer, net, data, True))
                    if held and step == 0:
                        with optimizer.skip_synchronize():
                            pass
                assert optimizer._should_synchronize is not held
            assert optimizer._should_synchronize
            close(weights_of(net), weights_of(alone), 1e-4)


def check_a_scaler_skips_a_step_on_all_ranks(frontend):
    if not hasattr(torch.amp, "GradScaler"):
        raise Skip("torch.amp.GradScaler came with PyTorch 2.3")
    net = model()
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for step in range(2):
        optimizer.zero_grad()
        before = weights_of(net).clone()
        factor = float("inf") if step == 1 and hvd.rank() == 0 else 1.0
        scaler.scale(loss_of(net, batch(step, hvd.rank())) * factor).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
        assert torch.equal(weights_of(net), before) == (step == 1)
    assert same_everywhere(weights_of(net)) and scaler.get_scale() == 4.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a skipped step has no effect on the next one
        train(optimizer, net)


def check_gradients_lost_in_a_shutdown_are_an_error(frontend):
    net = model()
    optimizer = hvd.DistributedOptimizer(sgd(net.parameters()), net.named_parameters())
    loss_of(net, batch(0, hvd.rank())).backward()
    hvd.barrier()
    hvd.shutdown()
    frontend.start()
    if hvd.size() > 1:
        raises(hvd.HorovodInternalError, "shut down", optimizer.step)
    train(optimizer, net)
    assert same_everywhere(weights_of(net))
