"""horovod.keras and horovod.tensorflow.keras on two ranks of horovodrun."""

import functools
import importlib.util

import pytest
import suite

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("TensorFlow is not installed", allow_module_level=True)

MODULES = {2: ["gradient_checks", "keras_checks"]}
CASES = [
    pytest.param(size, check, id=f"{size}_ranks-{check}")
    for size, modules in MODULES.items()
    for module in modules
    for check in suite.checks_of(module)
]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    @functools.cache
    def of_size(size):
        folder = tmp_path_factory.mktemp(f"ranks{size}")
        return suite.Job(folder, "tensorflow_adapter", MODULES[size], size)

    return of_size


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("size", "check"), CASES)
def test_keras(job, size, check):
    outcome, text = job(size).outcome(check)
    if outcome == "skipped":
        pytest.skip(text)
    assert outcome == "passed", text
