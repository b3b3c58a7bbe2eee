# SPDX-License-Identifier: Apache-2.0
"""horovod.keras with PyTorch and JAX on two ranks of horovodrun."""

import functools
import importlib.util

import pytest
import suite

CASES = [
    pytest.param(backend, check, id=f"{backend}-{check}")
    for backend in ("torch", "jax")
    for check in suite.checks_of("keras_backend_checks")
]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    @functools.cache
    def with_backend(backend):
        for package in ("keras", backend):
            if importlib.util.find_spec(package) is None:
                pytest.skip(f"{package} is not installed")
        folder = tmp_path_factory.mktemp(backend)
        modules = ["keras_backend_checks"]
        return suite.Job(folder, "keras_adapter", modules, 2, KERAS_BACKEND=backend)

    return with_backend


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("backend", "check"), CASES)
def test_keras_backend(job, backend, check):
    suite.judge(job(backend).outcome(check))
