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
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KERAS_BACKEND", backend)
            return suite.Job(folder, "keras_adapter", ["keras_backend_checks"], 2)

    return with_backend


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("backend", "check"), CASES)
def test_keras_backend(job, backend, check):
    suite.judge(job(backend).outcome(check))
