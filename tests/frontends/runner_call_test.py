# SPDX-License-Identifier: Apache-2.0
"""An error names the part of a call that cannot be pickled, its type and the remedy."""

import functools
import socket
import sys
import threading

import cloudpickle
import horovod
import horovod.spark
import pytest
from horovod.runner import call

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # as functions of a script are

LOCK = threading.Lock()
LOCK_TYPE = "of type _thread.lock"


def uses_a_global():
    with LOCK:
        return len([LOCK for _ in range(3)])


def uses_a_global_in_a_helper():
    return uses_a_global()


def has_a_default(rate=0.1, *, lock=LOCK):
    return rate, lock


class Trainer:
    def __init__(self):
        self.rate = 0.1
        self.plan = {"steps": [1, LOCK]}

    def train(self):
        return self.plan

    def __call__(self):
        return self.plan


class DecidesItself:
    """An object that is not pickled by its attributes."""

    def __init__(self):
        self.harmless = LOCK
        self.connection = None

    def __getstate__(self):
        raise RuntimeError("a connection cannot travel")


def capturing(variable):
    def train():
        return variable

    return train


def wrapped(function):
    @functools.wraps(function)
    def wrapper():
        return function()

    return wrapper


def printing(_text, *, file=None):
    return file


CASES = {
    "a variable": (capturing(LOCK), 'the variable "variable" that train captures, ' + LOCK_TYPE),
    "a global": (uses_a_global, 'the global variable "LOCK" that uses_a_global uses, ' + LOCK_TYPE),
    "a helper's": (
        uses_a_global_in_a_helper,
        'the global variable "LOCK" that uses_a_global uses, ' + LOCK_TYPE,
    ),
    "a wrapped one": (
        wrapped(uses_a_global),
        'the global variable "LOCK" that uses_a_global uses, ' + LOCK_TYPE,
    ),
    "a default": (has_a_default, 'the default of the argument "lock" of has_a_default, '),
    "an attribute": (Trainer().train, '"self.plan", which Trainer.train needs, of type dict'),
    "inside it": (Trainer().train, "(in it self.plan['steps'][1], " + LOCK_TYPE + ")"),
    "a callable": (Trainer(), "(in it Trainer.plan['steps'][1], " + LOCK_TYPE + ")"),
    "of a partial": (functools.partial(printing, "x", file=LOCK), 'kwargs["file"], ' + LOCK_TYPE),
    "no attribute": (
        capturing(DecidesItself()),
        'the variable "variable" that train captures, of type runner_call_test.DecidesItself, '
        "cannot be pickled: RuntimeError: a connection cannot travel. Import and build it inside",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_function_captures_is_named(case):
    function, expected = CASES[case]
    with pytest.raises(ValueError, match="Import and build it inside the function") as raised:
        call.pack(function, (), {})
    assert expected in str(raised.value)
    assert "cannot be sent to the ranks" in str(raised.value)
    assert raised.value.__cause__ is not None  # cloudpickle's own


def test_arguments_are_named():
    with pytest.raises(ValueError, match=r"because args\[1\], of type _thread\.lock, cannot be"):
        call.pack(print, (1, LOCK), {})
    with pytest.raises(ValueError, match=r'because kwargs\["file"\], of type _io\.TextIOWrapper, '):
        call.pack(print, (), {"file": sys.__stdout__})


def test_what_can_be_sent_is_sent_although_its_names_look_alike():
    class Settings:
        LOCK = 3

    settings = Settings()

    def train(rate, factor=2):
        return settings.LOCK * rate * factor  # an attribute, and not the global variable

    function, args, kwargs = cloudpickle.loads(call.pack(train, [5], {"factor": 7}))
    assert function(*args, **kwargs) == 105


def test_every_way_to_run_names_what_cannot_be_sent():
    """The error is raised before anything is started: there is no Spark here."""
    with socket.socket() as connection:
        for run in (
            horovod.run,
            horovod.spark.run,
            horovod.spark.HorovodRunner(np=2).run,
            horovod.spark.HorovodRunner(np=-1).run,
        ):
            with pytest.raises(ValueError, match=r'"variable" .* of type socket\.socket, cannot'):
                run(capturing(connection))
