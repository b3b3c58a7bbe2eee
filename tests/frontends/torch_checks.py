# SPDX-License-Identifier: Apache-2.0
"""Features of the PyTorch front end only: handles, tensors in flight, optimizers, modules."""

from __future__ import annotations

import gc
import json
import pathlib
import signal
import tempfile
import threading
import time
import warnings

import horovod.torch as hvd
import numpy as np
import torch
from conformance import raises, ramp
from suite import Skip
from torch import nn

STEPS = 4


def total(*shape):
    return torch.tensor(sum(ramp(rank, *shape) for rank in range(hvd.size())))


def mine(*shape, dtype=torch.float32):
    return torch.tensor(ramp(hvd.rank(), *shape)).to(dtype)


# Handles ----------------------------------------------------------------------------------------


def check_handles_are_numbers_that_wait_once(frontend):
    x, y = mine(5), mine(5)
    handles = [hvd.allreduce_async(x, op=hvd.Sum), hvd.allreduce_async_(y, op=hvd.Sum, name="y")]
    assert all(type(handle) is int for handle in handles)
    outputs = [hvd.synchronize(handle) for handle in reversed(handles)][::-1]
    assert outputs[1] is y and outputs[0] is not x
    assert torch.equal(x, mine(5)) and torch.equal(outputs[0], total(5).float())
    assert torch.equal(y, outputs[0])
    assert hvd.synchronize(handles[0]) is None
    raises(ValueError, "unknown", hvd.poll, handles[0])
    handle = hvd.broadcast_async_(y, 0)
    while not hvd.poll(handle):
        pass
    assert hvd.synchronize(handle) is y


def check_in_place_forms_return_their_tensor(frontend):
    x = mine(4)
    assert hvd.allreduce_(x, op=hvd.Sum) is x and torch.equal(x, total(4).float())
    x = mine(4)
    assert hvd.broadcast_(x, 1) is x and torch.equal(x, torch.tensor(ramp(1, 4)).float())
    group = [mine(2), mine(3).double()]
    reduced = hvd.grouped_allreduce_(group, op=hvd.Sum)
    assert reduced[0] is group[0] and torch.equal(group[1], total(3).double())
    handle = hvd.grouped_allreduce_async_([mine(2), mine(3)], op=hvd.Max, name="g")
    assert torch.equal(hvd.synchronize(handle)[1], torch.tensor(ramp(hvd.size() - 1, 3)).float())


def check_async_forms_of_all_kinds(frontend):
    size, rank = hvd.size(), hvd.rank()
    x = mine(size, 2)
    handles = {
        "gather": hvd.allgather_async(x),
        "gathers": hvd.grouped_allgather_async([x, x]),
        "scatter": hvd.reducescatter_async(x, op=hvd.Sum),
        "scatters": hvd.grouped_reducescatter_async([x, x], op=hvd.Sum),
        "exchange": hvd.alltoall_async(x),
        "sum": hvd.grouped_allreduce_async([x], op=hvd.Sum),
        "copy": hvd.broadcast_async(x, 0),
    }
    got = {name: hvd.synchronize(handle) for name, handle in handles.items()}
    gathered = torch.cat([torch.tensor(ramp(r, size, 2)).float() for r in range(size)])
    assert torch.equal(got["gather"], gathered) and torch.equal(got["gathers"][1], gathered)
    assert torch.equal(got["scatter"], total(size, 2).float()[rank : rank + 1])
    assert torch.equal(got["scatters"][1], got["scatter"])
    assert torch.equal(got["exchange"][0], gathered[rank::size])
    assert got["exchange"][1].tolist() == [1] * size
    assert torch.equal(got["sum"][0], total(size, 2).float())
    assert torch.equal(got["copy"], torch.tensor(ramp(0, size, 2)).float())


def check_a_thousand_small_tensors_in_any_order(frontend):
    tensors = [torch.full((16,), float(i + hvd.rank())) for i in range(1000)]
    order = range(1000) if hvd.rank() % 2 == 0 else range(999, -1, -1)
    handles = {i: hvd.allreduce_async_(tensors[i], name=f"many.{i}") for i in order}
    for i, handle in handles.items():
        hvd.synchronize(handle)
        assert tensors[i][0] == i + (hvd.size() - 1) / 2


def check_tensors_without_names_are_matched_by_their_order(frontend):
    """Also with many handles, and if a rank waits at once or later."""
    tensors = [torch.full((4,), float(i)) for i in range(2000)]
    for handle in [hvd.allreduce_async_(tensor, op=hvd.Sum) for tensor in tensors]:
        hvd.synchronize(handle)
    assert all(tensor[0] == i * hvd.size() for i, tensor in enumerate(tensors))
    x = mine(5)
    if hvd.rank() == 0:
        reduced = hvd.allreduce(x, op=hvd.Sum)
    else:
        reduced = hvd.synchronize(hvd.allreduce_async(x, op=hvd.Sum))
    assert torch.equal(reduced, total(5).float())


def check_a_name_can_be_in_flight_once(frontend):
    x = torch.ones(3)
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(x, name="twice")
        raises(ValueError, "twice", hvd.allreduce_async, x, name="twice")
    hvd.barrier()
    if hvd.rank() != 0:
        handle = hvd.allreduce_async(x, name="twice")
    hvd.synchronize(handle)
    hvd.allreduce(x, name="twice")


def check_a_wait_can_be_interrupted_and_taken_up_again(frontend):
    class Alarm(Exception):  # noqa: N818
        pass

    def ring(*_):
        raise Alarm("it is time")

    x = mine(3)
    if hvd.rank() == 0:
        before = signal.signal(signal.SIGALRM, ring)
        handle = hvd.allreduce_async_(x, op=hvd.Sum, name="interrupted")
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        raises(Alarm, "time", hvd.synchronize, handle)
        signal.signal(signal.SIGALRM, before)
    hvd.barrier()
    if hvd.rank() != 0:
        handle = hvd.allreduce_async_(x, op=hvd.Sum, name="interrupted")
    assert hvd.synchronize(handle) is x and torch.equal(x, total(3).float())


def check_threads_wait_side_by_side(frontend):
    def reduce(number):
        for step in range(50):
            x = torch.full((100,), float(number + step))
            results[number] += float(hvd.allreduce(x, name=f"thread.{number}")[0])

    results = [0.0] * 4
    threads = [threading.Thread(target=reduce, args=(number,)) for number in range(4)]
    for thread in threads if hvd.rank() % 2 == 0 else reversed(threads):
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [sum(float(number + step) for step in range(50)) for number in range(4)]


# Tensors ----------------------------------------------------------------------------------------


def check_unfit_tensors_are_refused(frontend):
    raises(ValueError, "is not supported", hvd.allreduce, torch.zeros(2, dtype=torch.complex64))
    raises(ValueError, "is not supported", hvd.allreduce_, torch.zeros(2, dtype=torch.complex64))
    raises(ValueError, "is not supported", hvd.allreduce, torch.zeros(2, device="meta"))
    raises(ValueError, "contiguous", hvd.allreduce_, torch.zeros(3, 2).t())
    raises(ValueError, "contiguous", hvd.broadcast_, torch.zeros(3, 2).t(), 0)
    raises(ValueError, "tensor", hvd.allreduce, [1.0])
    raises(ValueError, "tensor", hvd.allreduce_, 1.0)
    raises(ValueError, "int32", hvd.alltoall, torch.zeros(2), torch.tensor([1, 1]))
    raises(ValueError, "one-dimensional", hvd.alltoall, torch.zeros(2), torch.ones(1, 1).int())
    raises(ValueError, "at least one", hvd.grouped_allreduce, [])


def check_plain_forms_copy_what_is_not_contiguous(frontend):
    x = mine(3, 2).t()
    assert torch.equal(hvd.allreduce(x, op=hvd.Sum), total(3, 2).float().t())
    assert torch.equal(hvd.broadcast(x, 0), torch.tensor(ramp(0, 3, 2)).float().t())
    wanted = torch.cat([torch.tensor(ramp(r, 3, 2)).float().t() for r in range(hvd.size())])
    assert torch.equal(hvd.allgather(x), wanted)


def check_bool_is_gathered_and_reduced(frontend):
    x = torch.tensor([True, False, hvd.rank() == 0])
    assert hvd.allgather(x).dtype == torch.bool
    assert hvd.allgather(x).tolist() == [True, False, True] + [True, False, False] * (
        hvd.size() - 1
    )
    assert hvd.allreduce(x, op=hvd.Max).tolist() == [True, False, True]
    assert hvd.allreduce(x, op=hvd.Min).tolist() == [True, False, False]


def check_the_average_argument_is_deprecated_but_works(frontend):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.equal(hvd.allreduce(mine(3), average=False), total(3).float())
    assert [warning.category for warning in caught] == [DeprecationWarning]
    raises(ValueError, "supersedes average", hvd.allreduce, mine(3), average=True, op=hvd.Sum)


def check_what_is_in_flight_survives_whatever_the_program_does(frontend):
    # Rank 0 starts early and drops, replaces and shrinks its tensors; the other ranks are late.
    for round_ in range(3):
        handles = []
        if hvd.rank() == 0:
            for i in range(8):
                x = torch.ones(50_000)
                handles.append(hvd.allreduce_async_(x, op=hvd.Sum, name=f"fate.{i}"))
                if i % 4 == 1:
                    x.data = torch.zeros(1)
                elif i % 4 == 2:
                    x.set_(torch.zeros(7))
                elif i % 4 == 3:
                    x.resize_(3)
                del x
            gc.collect()
            junk = [torch.full((50_000,), 7.0) for _ in range(8)]
        hvd.barrier()
        if hvd.rank() != 0:
            tensors = [torch.ones(50_000) for _ in range(8)]
            handles = [
                hvd.allreduce_async_(x, op=hvd.Sum, name=f"fate.{i}") for i, x in enumerate(tensors)
            ]
        for handle in handles:
            hvd.synchronize(handle)
        if hvd.rank() == 0:
            assert all(bool((x == 7).all()) for x in junk), round_
        else:
            assert all(bool((x == hvd.size()).all()) for x in tensors), round_


def check_sparse_tensors_add_up(frontend):
    rank, size = hvd.rank(), hvd.size()
    x = torch.sparse_coo_tensor([[rank, size]], [[1.0, 2.0], [4.0, 8.0]], (size + 1, 2))
    for op, factor in ((hvd.Sum, 1.0), (hvd.Average, 1 / size)):
        dense = hvd.sparse_allreduce_async(x, f"sparse.{op}", op)().to_dense()
        wanted = torch.tensor([[1.0, 2.0]] * size + [[4.0 * size, 8.0 * size]]) * factor
        assert torch.allclose(dense, wanted)


def check_adasum_needs_all_ranks(frontend):
    same = torch.tensor([3.0, 4.0])
    assert torch.allclose(hvd.allreduce(same, op=hvd.Adasum), same)
    other = frontend.sets[hvd.rank() % 2]
    raises(NotImplementedError, "global", hvd.allreduce, same, op=hvd.Adasum, process_set=other)


def check_a_timeline_begins_and_ends_on_demand(frontend):
    folder = pathlib.Path(tempfile.gettempdir())
    path = folder / f"hvd_torch_timeline_{hvd.broadcast_object(id(frontend))}.json"
    hvd.start_timeline(str(path), mark_cycles=True)
    hvd.allreduce(torch.ones(3), name="traced")
    hvd.stop_timeline()
    hvd.stop_timeline()
    if hvd.rank() == 0:
        names = [event.get("args", {}).get("name") for event in json.loads(path.read_text())]
        assert "allreduce.traced" in names
        path.unlink()


# State of models and optimizers -------------------------------------------------------------------


def model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def weights_of(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def same_everywhere(tensor):
    gathered = hvd.allgather(tensor.detach().reshape(1, -1))
    return bool((gathered == gathered[0]).all())


def check_broadcast_parameters_makes_models_equal(frontend):
    for params in (
        lambda m: m.state_dict(),
        lambda m: m.named_parameters(),
        lambda m: list(m.parameters()),
    ):
        net = model(seed=hvd.rank())
        hvd.broadcast_parameters(params(net), root_rank=1)
        assert torch.equal(weights_of(net), weights_of(model(seed=1)))
    torch.manual_seed(hvd.rank())
    images = nn.Conv2d(4, 4, 3).to(memory_format=torch.channels_last)
    hvd.broadcast_parameters(images.state_dict(), root_rank=0)
    assert same_everywhere(images.weight.contiguous())
    raises(ValueError, "dict", hvd.broadcast_parameters, 5, root_rank=0)
    raises(ValueError, "not a tensor", hvd.broadcast_parameters, {"a": "b"}, root_rank=0)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.02),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02),
}


def check_broadcast_optimizer_state_makes_optimizers_equal(frontend):
    for name, make in OPTIMIZERS.items():
        net = model()
        optimizer = make(net.parameters())
        if hvd.rank() == 0:
            for _ in range(2):
                net(torch.ones(1, 6)).sum().backward()
                optimizer.step()
            optimizer.param_groups[0]["lr"] = 0.5
        hvd.broadcast_parameters(net.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        assert optimizer.param_groups[0]["lr"] == 0.5
        state = optimizer.state_dict()["state"]
        assert sorted(state) == [0, 1, 2, 3], name
        for values in state.values():
            for value in values.values():
                assert not isinstance(value, torch.Tensor) or same_everywhere(value.float())
        optimizer.step()  # the state fits
        fresh = make(net.parameters())
        hvd.broadcast_optimizer_state(fresh, root_rank=0)
        assert not fresh.state_dict()["state"]
    lbfgs = torch.optim.LBFGS(net.parameters())
    raises(ValueError, "LBFGS", hvd.broadcast_optimizer_state, lbfgs, root_rank=0)


# DistributedOptimizer -----------------------------------------------------------------------------


def batch(step, rank):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(4, 6, generator=generator), torch.randn(4, 3, generator=generator)


def whole_batch(step):
    xs, ys = zip(*(batch(step, rank) for rank in range(hvd.size())))
    return torch.cat(xs), torch.cat(ys)


def loss_of(net, data):
    return nn.functional.mse_loss(net(data[0]), data[1])


def train_alone(make, passes=1):
    """The weights of one process that trains with the batches of all ranks."""
    net = model()
    optimizer = make(net.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(passes):
            loss_of(net, whole_batch(passes * step + part)).backward()
        optimizer.step()
    return weights_of(net)


def train_together(make, passes=1, change=None, **options):
    net = model()
    optimizer = make(net.parameters())
    optimizer = hvd.DistributedOptimizer(
        optimizer, net.named_parameters(), backward_passes_per_step=passes, **options
    )
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(passes):
            loss_of(net, batch(passes * step + part, hvd.rank())).backward()
        if change is None:
            optimizer.step()
        else:
            change(optimizer, net)
    return weights_of(net)


def close(a, b, tolerance=2e-6):
    assert torch.allclose(a, b, rtol=0, atol=tolerance), float((a - b).abs().max())


def check_training_together_equals_training_alone(frontend):
    for make in OPTIMIZERS.values():
        together = train_together(make)
        assert same_everywhere(together)
        # Adam divides by gradients, which enlarges the rounding errors of small ones.
        close(together, train_alone(make), 2e-5)


def check_options_of_the_optimizer_change_no_result(frontend):
    make = OPTIMIZERS["sgd"]
    alone = train_alone(make)
    close(train_together(make, groups=2), alone)
    close(train_together(make, groups=2, gradient_predivide_factor=2.0), alone)
    close(train_together(make, gradient_predivide_factor=0.5), alone)
    close(train_together(make, sparse_as_dense=True), alone)
    close(train_together(make, passes=3), train_alone(make, passes=3), 2e-5)
    close(train_together(make, passes=2, groups=3), train_alone(make, passes=2), 2e-5)
    close(train_together(make, compression=hvd.Compression.fp16), alone, 2e-3)
    close(train_together(make, compression=hvd.Compression.bf16), alone, 2e-2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        close(train_together(make, num_groups=2), alone)
    assert any(warning.category is DeprecationWarning for warning in caught)


def check_ranks_may_list_their_parameters_in_any_order(frontend):
    net = model()
    parameters = list(net.parameters())
    if hvd.rank() % 2 == 1:
        parameters.reverse()
    optimizer = OPTIMIZERS["sgd"](parameters)
    for _ in range(2):  # wrapping it again replaces the hooks
        optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters(), groups=2)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(net, batch(step, hvd.rank())).backward()
        optimizer.step()
    close(weights_of(net), train_alone(OPTIMIZERS["sgd"]))


def check_gradients_need_not_be_contiguous(frontend):
    torch.manual_seed(0)
    net = nn.Conv2d(3, 4, 2).to(memory_format=torch.channels_last)
    before = net.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=1.0), net.named_parameters()
    )
    images = torch.arange(2 * 3 * 5 * 5.0).reshape(2, 3, 5, 5) * (hvd.rank() + 1) / 1000
    net(images.to(memory_format=torch.channels_last)).sum().backward()
    mine_ = net.weight.grad.detach().clone() / (hvd.rank() + 1)
    assert not net.weight.grad.is_contiguous()
    optimizer.step()
    close(net.weight.detach(), before - mine_ * (hvd.size() + 1) / 2, 1e-5)


def check_predividing_keeps_sums_small_also_in_groups(frontend):
    # The sum of two of these is more than float32 can hold; their average is not.
    large = 3e38
    for groups in (None, 1):
        weight = nn.Parameter(torch.zeros(3))
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD([weight], lr=1.0),
            [("weight", weight)],
            gradient_predivide_factor=float(hvd.size()),
            groups=groups,
        )
        (weight * large).sum().backward()
        optimizer.step()
        assert torch.allclose(weight.detach(), torch.full((3,), -large)), weight


def check_gradients_travel_while_backward_is_at_work(frontend):
    class WaitForTheOther(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            end = time.monotonic() + 20
            while not torch.equal(last.grad, average):
                assert time.monotonic() < end, "the last layer's gradient waits for step()"
            return grad

    first, last = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    average = torch.full((3,), (hvd.size() + 1) / 2)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([first, last], lr=1.0), [("first", first), ("last", last)]
    )
    (WaitForTheOther.apply(first * (hvd.rank() + 1)) * last).sum().backward()
    optimizer.step()
    close(last.detach(), 1 - average)


def check_explicit_groups_leave_the_rest_alone(frontend):
    net = model()
    optimizer = OPTIMIZERS["sgd"](net.parameters())
    first = [net[0].weight, net[0].bias]
    optimizer = hvd.DistributedOptimizer(optimizer, net.named_parameters(), groups=[first])
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(net, batch(step, hvd.rank())).backward()
        optimizer.step()
    close(weights_of(net), train_alone(OPTIMIZERS["sgd"]))


def check_gradients_can_be_clipped_between_synchronize_and_step(frontend):
    def clipped(optimizer, net):
        optimizer.synchronize()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        assert same_everywhere(norm.reshape(1))
        with optimizer.skip_synchronize(), warnings.catch_warnings():
            warnings.simplefilter("error")
            optimizer.step()

    def clipped_alone():
        net = model()
        optimizer = OPTIMIZERS["sgd"](net.parameters())
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(net, whole_batch(step)).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
        return weights_of(net)

    close(train_together(OPTIMIZERS["sgd"], change=clipped), clipped_alone())


def check_closures_are_reduced_each_time(frontend):
    def train(optimizer, net, data):
        for step in range(STEPS):

            def closure(step=step):
                optimizer.zero_grad()
                loss = loss_of(net, data(step))
                loss.backward()
                return loss

            optimizer.step(closure)
        return weights_of(net)

    net, alone = model(), model()
    make = lambda p: torch.optim.LBFGS(p, lr=0.1, max_iter=3)  # noqa: E731
    optimizer = hvd.DistributedOptimizer(make(net.parameters()), net.named_parameters())
    together = train(optimizer, net, lambda step: batch(step, hvd.rank()))
    # The loss of a rank is not the loss of all ranks; LBFGS uses it only for its line search.
    close(together, train(make(alone.parameters()), alone, whole_batch), 1e-4)


def check_wrong_use_of_the_optimizer_is_told(frontend):
    net = model()
    sgd = torch.optim.SGD(net.parameters(), lr=0.1)
    named = list(net.named_parameters())

    def refused(text, **options):
        raises(ValueError, text, hvd.DistributedOptimizer, sgd, **options)

    refused("tuples", named_parameters=list(net.parameters()))
    refused("not unique", named_parameters=[named[0], *named])
    refused("leaves out", named_parameters=named[:2])
    refused("backward_passes_per_step", backward_passes_per_step=0)
    refused("hvd.Average", gradient_predivide_factor=2.0, op=hvd.Sum)
    refused("groups", groups="all")
    refused("groups", groups=[net[0].weight])
    refused("negative", groups=-1)
    refused("twice", groups=[[net[0].weight], [net[0].weight]])

    optimizer = hvd.DistributedOptimizer(sgd, named)
    assert optimizer is sgd and isinstance(optimizer, torch.optim.SGD)
    assert type(optimizer).__name__ == "SGD"
    loss_of(net, batch(0, 0)).backward()
    raises(AssertionError, "zero_grad", optimizer.zero_grad)
    again = loss_of(net, batch(0, 0))
    raises(AssertionError, "backward_passes_per_step", again.backward)
    optimizer.step()
    optimizer.zero_grad()


def check_parameters_without_gradient_take_part(frontend):
    # On rank 0 the second layer is not used at all.
    net = model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.1), net.named_parameters()
    )
    x = torch.ones(2, 6)
    output = net[0](x) if hvd.rank() == 0 else net(x)
    output.sum().backward()
    optimizer.step()
    assert same_everywhere(weights_of(net))
    assert not torch.equal(net[2].weight, model()[2].weight)


def check_several_optimizers_and_later_parameters(frontend):
    one, two, late = model(), model(1), nn.Linear(3, 3)
    first = hvd.DistributedOptimizer(
        torch.optim.SGD(one.parameters(), lr=0.1),
        [(f"one.{name}", p) for name, p in one.named_parameters()],
    )
    second = hvd.DistributedOptimizer(
        torch.optim.Adam(two.parameters()),
        [(f"two.{name}", p) for name, p in two.named_parameters()],
    )
    hvd.broadcast_parameters(late.state_dict(), root_rank=0)
    first.add_param_group({"params": late.parameters()})
    for step in range(2):
        x, y = batch(step, hvd.rank())
        (late(one(x)) - y + two(x)).square().mean().backward()
        first.step()
        second.step()
        first.zero_grad()
        second.zero_grad()
    assert same_everywhere(torch.cat([weights_of(net) for net in (one, two, late)]))


def check_schedulers_and_state_dicts_go_on(frontend):
    net = model()
    sgd = OPTIMIZERS["sgd"](net.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(sgd, 1, gamma=0.5)  # before wrapping
    optimizer = hvd.DistributedOptimizer(sgd, net.named_parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(2):
            optimizer.zero_grad()
            loss_of(net, batch(step, hvd.rank())).backward()
            optimizer.step()
            scheduler.step()
    assert same_everywhere(weights_of(net))
    assert optimizer.param_groups[0]["lr"] == 0.1 * 0.25
    saved = optimizer.state_dict()
    loss_of(net, batch(3, hvd.rank())).backward()
    optimizer.load_state_dict(saved)  # ends the reductions in flight
    optimizer.zero_grad()
    loss_of(net, batch(4, hvd.rank())).backward()
    optimizer.step()
    assert same_everywhere(weights_of(net))


def check_sparse_gradients_are_added_up(frontend):
    for as_dense, factor in ((False, 1.0), (True, 1.0), (False, 2.0)):
        torch.manual_seed(0)
        table = nn.Embedding(5, 2, sparse=True)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(table.parameters(), lr=1.0),
            table.named_parameters(),
            sparse_as_dense=as_dense,
            gradient_predivide_factor=factor,
        )
        before = table.weight.detach().clone()
        table(torch.tensor([hvd.rank()])).sum().backward()
        optimizer.step()
        wanted = before.clone()
        wanted[: hvd.size()] -= 1 / hvd.size()
        close(table.weight.detach(), wanted)


def check_a_process_set_trains_by_itself(frontend):
    mine_, rank = frontend.sets[hvd.rank() % 2], hvd.rank()
    net = model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.1), net.named_parameters(), process_set=mine_
    )
    loss_of(net, batch(0, rank)).backward()
    optimizer.step()
    alone = model()
    xs, ys = zip(*(batch(0, member) for member in mine_.ranks))
    loss_of(alone, (torch.cat(xs), torch.cat(ys))).backward()
    torch.optim.SGD(alone.parameters(), lr=0.1).step()
    close(weights_of(net), weights_of(alone))


def check_state_and_modules_keep_to_their_process_set(frontend):
    mine_, rank = frontend.sets[hvd.rank() % 2], hvd.rank()
    root = mine_.ranks[-1]
    net = model(seed=rank)
    hvd.broadcast_parameters(net.state_dict(), root, process_set=mine_)
    assert torch.equal(weights_of(net), weights_of(model(seed=root)))

    optimizer = torch.optim.SGD(net.parameters(), lr=1.0 + rank, momentum=0.9)
    (net(torch.ones(1, 6)) * (1 + rank)).sum().backward()
    optimizer.step()
    before = hvd.allgather_object(optimizer.state_dict())[root]
    hvd.broadcast_optimizer_state(optimizer, root, process_set=mine_)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for index, values in before["state"].items():
        assert torch.equal(after["state"][index]["momentum_buffer"], values["momentum_buffer"])

    parts = [torch.randn(2, 3, generator=torch.Generator().manual_seed(r)) for r in mine_.ranks]
    normal = hvd.SyncBatchNorm(3, process_set=mine_)(parts[mine_.rank()])
    wanted = nn.BatchNorm1d(3)(torch.cat(parts))
    close(normal, wanted[2 * mine_.rank() : 2 * mine_.rank() + 2])

    sparse = torch.sparse_coo_tensor([[0]], [1.0 + rank], (2,))
    dense = hvd.sparse_allreduce_async(sparse, "sparse", hvd.Average, mine_)().to_dense()
    close(dense, torch.tensor([1 + sum(mine_.ranks) / mine_.size(), 0.0]))


def check_gradients_keep_to_their_process_set(frontend):
    mine_, rank = frontend.sets[hvd.rank() % 2], hvd.rank()
    root = mine_.ranks[-1]

    def gradient(function):
        x = torch.ones(2, requires_grad=True)
        (function(x) * (1 + rank)).sum().backward()
        return x.grad

    average = torch.full((2,), 1 + sum(mine_.ranks) / mine_.size())
    close(gradient(lambda x: hvd.allreduce(x, process_set=mine_)), average)
    close(gradient(lambda x: hvd.allgather(x, process_set=mine_)), average)
    wanted = average if rank == root else torch.zeros(2)
    close(gradient(lambda x: hvd.broadcast(x, root, process_set=mine_)), wanted)


def check_rows_that_alltoall_keeps_have_no_gradient(frontend):
    x = torch.ones(hvd.size() + 1, requires_grad=True)
    output, _ = hvd.alltoall(x, torch.ones(hvd.size(), dtype=torch.int32))
    (output * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * hvd.size() + [0.0]


def check_adasum_combines_steps(frontend):
    # Orthogonal steps add up: each rank changes another weight.
    weight = nn.Parameter(torch.zeros(hvd.size()))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([weight], lr=0.5), [("weight", weight)], op=hvd.Adasum
    )
    weight[hvd.rank()].backward()
    optimizer.synchronize()
    optimizer.step()
    close(weight.detach(), torch.full((hvd.size(),), -0.5))
    with_skip = lambda: optimizer.skip_synchronize().__enter__()  # noqa: E731
    raises(AssertionError, "skip_synchronize", with_skip)
    # Equal steps count once, also with compression.
    weight = nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([weight], lr=0.5),
        [("weight", weight)],
        op=hvd.Adasum,
        compression=hvd.Compression.fp16,
    )
    weight.sum().backward()
    optimizer.step()
    close(weight.detach(), torch.full((3,), -0.5))


def check_mixed_precision_with_a_scaler(frontend):
    if not hasattr(torch.amp, "GradScaler"):
        raise Skip("torch.amp.GradScaler came with PyTorch 2.3")
    net = model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.1), net.named_parameters()
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for step in range(2):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(net, batch(step, hvd.rank()))
        scaler.scale(loss).backward()
        optimizer.synchronize()
        scaler.unscale_(optimizer)
        with optimizer.skip_synchronize():
            scaler.step(optimizer)
        scaler.update()
    assert same_everywhere(weights_of(net))
    assert not torch.equal(weights_of(net), weights_of(model()))


# Modules and compiled code ------------------------------------------------------------------------


def check_sync_batch_norm_sees_all_batches(frontend):
    size, rank = hvd.size(), hvd.rank()
    generator = torch.Generator().manual_seed(5)
    # Ranks have different numbers of images.
    parts = [
        torch.randn(2 + r, 3, 4, 4, generator=generator, dtype=torch.float64) for r in range(size)
    ]
    synced = hvd.SyncBatchNorm(3).double()
    plain = nn.BatchNorm2d(3).double()
    x = parts[rank].clone().requires_grad_()
    everything = torch.cat(parts).requires_grad_()
    y, wanted = synced(x), plain(everything)
    start = sum(2 + r for r in range(rank))
    close(y, wanted[start : start + 2 + rank], 1e-12)
    close(synced.running_mean, plain.running_mean, 1e-12)
    close(synced.running_var, plain.running_var, 1e-12)
    (y * y * y).sum().backward()
    (wanted * wanted * wanted).sum().backward()
    close(x.grad, everything.grad[start : start + 2 + rank], 1e-10)
    close(hvd.allreduce(synced.weight.grad, op=hvd.Sum), plain.weight.grad, 1e-10)
    close(hvd.allreduce(synced.bias.grad, op=hvd.Sum), plain.bias.grad, 1e-10)
    synced.eval()
    plain.eval()
    close(synced(x), plain(x), 1e-12)
    raises(ValueError, "2 dimensions", synced, torch.zeros(3))


def check_compiled_code_may_call_collectives(frontend):
    if not hasattr(torch.library, "custom_op"):
        raise Skip("operators that are written in Python came with PyTorch 2.4")
    size, rank = hvd.size(), hvd.rank()

    def reduced(x):
        y = hvd.allreduce(x * 2, op=hvd.Sum, name="compiled") + 1
        return hvd.broadcast(y, 0, name="compiled.b") + hvd.reducescatter(y, op=hvd.Sum).sum()

    def gathered(x):
        one, two = hvd.grouped_allgather([x, x + 1], name="compiled.gg")
        (three,) = hvd.grouped_allreduce([x], op=hvd.Sum)
        return hvd.allgather(x, name="compiled.g").square().sum() + (one.sum() * two.sum()) * three

    for function in (reduced, gathered):
        results = []
        for run in (function, torch.compile(function, fullgraph=True, backend="aot_eager")):
            x = torch.full((size,), 1.0 + rank, requires_grad=True)
            # PyTorch 2.6 needs it, 2.15 does not.
            with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
                y = run(x)
            (y * torch.arange(1.0, y.numel() + 1)).sum().backward()
            results.append((y.detach(), x.grad))
        close(results[1][0], results[0][0], 1e-3)
        close(results[1][1], results[0][1], 1e-3)


def check_compiled_models_train_together(frontend):
    net = model()
    compiled = torch.compile(net, backend="aot_eager")
    optimizer = hvd.DistributedOptimizer(
        OPTIMIZERS["sgd"](net.parameters()), net.named_parameters()
    )
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(compiled, batch(step, hvd.rank())).backward()
        optimizer.step()
    close(weights_of(net), train_alone(OPTIMIZERS["sgd"]))


def check_old_import_paths_lead_here(frontend):
    import horovod.torch.compression
    import horovod.torch.functions
    import horovod.torch.mpi_ops
    import horovod.torch.optimizer
    import horovod.torch.sync_batch_norm

    assert horovod.torch.mpi_ops.allreduce is hvd.allreduce
    assert horovod.torch.mpi_ops.is_homogeneous()
    assert horovod.torch.optimizer.DistributedOptimizer is hvd.DistributedOptimizer
    assert horovod.torch.functions.broadcast_object is hvd.broadcast_object
    assert horovod.torch.sync_batch_norm.SyncBatchNorm is hvd.SyncBatchNorm
    assert horovod.torch.compression.Compression is hvd.Compression


def check_a_killed_operation_names_its_cause(frontend):
    # Operations in flight at a shutdown fail with a message about it.
    handle = None
    if hvd.rank() == 0:
        handle = hvd.allreduce_async(torch.ones(2), name="never")
    frontend.barrier("in flight")
    hvd.shutdown()
    if handle is not None:
        assert hvd.synchronize(handle) is None  # the table is empty
    raises(hvd.HorovodInternalError, "has not been initialized", hvd.allreduce, torch.ones(2))
    frontend.start()
    np.testing.assert_array_equal(hvd.allreduce(torch.ones(2)), [1, 1])
