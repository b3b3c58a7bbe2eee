# SPDX-License-Identifier: Apache-2.0
"""horovod.torch.elastic: training that fails and continues."""

from __future__ import annotations

import random

import horovod.torch as hvd
import torch
from conformance import raises
from horovod.torch.elastic import state as elastic_state
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
)


def train_with_a_failure(frontend, last_step, fail):
    net = model(seed=hvd.rank())  # the first sync makes them equal
    optimizer = hvd.DistributedOptimizer(
        OPTIMIZERS["adam"](net.parameters()), net.named_parameters()
    )
    state = hvd.elastic.TorchState(net, optimizer, step=0, done=[])
    starts = []

    @hvd.elastic.run
    def train(state, word):
        starts.append(state.step)
        assert same_everywhere(weights_of(net))
        while state.step < STEPS:
            loss_of(net, batch(state.step, hvd.rank())).backward()
            if state.step == last_step and len(starts) == 1:
                fail()  # while gradients are being reduced
            optimizer.step()
            optimizer.zero_grad()
            state.done.append(state.step)
            state.step += 1
            if state.step % 2 == 0:
                state.commit()
        return word

    assert train(state, "trained") == "trained"
    assert starts == [0, 2] and state.done == list(range(STEPS))
    assert same_everywhere(weights_of(net))
    close(weights_of(net), train_alone(OPTIMIZERS["adam"]), 2e-5)
    frontend.barrier("trained")
    hvd.shutdown()
    frontend.start()  # with its process sets


def check_training_ends_at_once_when_ranks_disagree(frontend):
    state = hvd.elastic.TorchState(model(seed=0), step=0)
    starts = []

    @hvd.elastic.run
    def train(state):
        starts.append(state.step)
        hvd.allreduce(torch.ones(2 + hvd.rank()), name="disagree")

    raises(hvd.HorovodInternalError, "Mismatched", train, state)
    assert starts == [0]
    raises(hvd.HorovodInternalError, "Sum or Average", hvd.reducescatter, torch.ones(4), op=hvd.Max)
    frontend.barrier("the job goes on")


def check_training_goes_on_from_the_last_commit_when_one_rank_failed(frontend):
    def fail():  # the other ranks notice in this step or in the next, which ends with a commit
        if hvd.rank() == 1:
            raise hvd.HorovodInternalError("something is wrong here")

    train_with_a_failure(frontend, 2, fail)


def check_a_sampler_deals_out_what_is_left(frontend):
    size = hvd.size()
    sampler = hvd.elastic.ElasticSampler(range(23), seed=7)
    state = hvd.elastic.TorchState(sampler=sampler)
    order = list(range(23))
    random.Random(7).shuffle(order)

    def dealt():
        assert len(list(sampler)) == len(sampler) == sampler.num_samples
        assert (sampler.num_replicas, sampler.rank) == (size, hvd.rank())
        return [index for row in zip(*hvd.allgather_object(list(sampler))) for index in row]

    def padded(indices):
        return indices + indices[: -len(indices) % size]

    assert dealt() == padded(order) and sampler.total_size == len(padded(order))
    sampler.record_batch(0, 2)
    state.commit()
    sampler.record_batch(1, 2)
    assert sampler.state_dict() == {"epoch": 0, "processed_num": 4 * size}
    state.restore()
    assert dealt() == padded(order[2 * size :]) and sampler.remaining_indices == order[2 * size :]
    if hvd.rank() == 0:
        sampler.load_state_dict({"epoch": 0, "processed_num": 22})
    state.sync()
    assert dealt() == size * order[22:]
    sampler.record_batch(0, 1)
    state.on_reset()
    assert dealt() == []
    sampler.set_epoch(1)
    assert sampler.processed_num == 0 and sorted(set(dealt())) == list(range(23))
    assert dealt() != padded(order)
    plain = hvd.elastic.ElasticSampler(range(12), shuffle=False)
    assert list(plain) == list(range(hvd.rank(), 12, size))


def check_an_elastic_state_keeps_each_value_by_its_type(frontend):
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    state = hvd.elastic.TorchState(optimizer=optimizer, scheduler=scheduler, epoch=hvd.rank())
    state.model = net  # from now on it is saved as a model

    def step():
        loss_of(net, batch(0, 0)).backward()
        optimizer.step()

    def momentum():
        return optimizer.state[net[0].weight]["momentum_buffer"]

    step()
    state.commit()
    before, buffer = weights_of(net).clone(), momentum().clone()
    for _ in range(2):
        step()
        scheduler.step()
        assert not torch.equal(momentum(), buffer)
        state.restore()
        assert torch.equal(momentum(), buffer)
        assert torch.equal(weights_of(net), before)
        assert optimizer.param_groups[0]["lr"] == 1.0 and scheduler.last_epoch == 0
    assert (state.model, state.optimizer, state.scheduler) == (net, optimizer, scheduler)

    if hvd.rank() == 0:
        scheduler.step()
    state.sync()
    assert state.epoch == 0 and scheduler.last_epoch == 1
    assert optimizer.param_groups[0]["lr"] == 0.5 and state.optimizer is optimizer

    other = model(seed=hvd.rank() + 1)
    state.model = other
    weights = weights_of(other).clone()
    with torch.no_grad():
        other[0].weight.zero_()
    state.restore()
    assert state.model is other and torch.equal(weights_of(other), weights)


def check_handlers_of_own_types_can_be_registered(frontend):
    class Counter:
        count = 0

    class CounterHandler(elastic_state.StateHandler):
        def save(self):
            self.saved = self.value.count

        def restore(self):
            self.value.count = self.saved

        def sync(self):
            self.value.count = hvd.broadcast_object(self.value.count)
            self.save()

    registry = elastic_state.get_handler_registry()
    elastic_state.set_handler_registry([*registry, (Counter, CounterHandler)])
    try:
        counter = Counter()
        state = hvd.elastic.TorchState(counter=counter)
        counter.count = 5 + hvd.rank()
        state.restore()
        assert counter.count == 0
        counter.count = 5 + hvd.rank()
        state.sync()
        assert counter.count == 5 and state.counter is counter
    finally:
        elastic_state.set_handler_registry(registry)
    assert elastic_state.get_handler_registry() is registry
    raises(NotImplementedError, "", elastic_state.StateHandler(model()).sync)


def check_old_paths_of_elastic_lead_here(frontend):
    from horovod.torch.elastic.sampler import ElasticSampler
    from horovod.torch.elastic.state import (
        ModelStateHandler,
        OptimizerStateHandler,
        SamplerStateHandler,
        TorchState,
    )

    assert (TorchState, ElasticSampler) == (hvd.elastic.TorchState, hvd.elastic.ElasticSampler)
    handlers = [handler for _, handler in elastic_state.get_handler_registry()]
    assert {ModelStateHandler, OptimizerStateHandler, SamplerStateHandler} <= set(handlers)
