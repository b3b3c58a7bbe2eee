# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow on two, three and four ranks of horovodrun."""

import importlib.util

import pytest
import suite

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("TensorFlow is not installed", allow_module_level=True)

# Only the collectives behave differently with three ranks, which is not a power of two.
ALL = ["conformance", "tensorflow_checks"]
MODULES = {
    2: [*ALL, "tensorflow_rule_checks"],
    3: ["conformance", "tensorflow_rule_checks"],
    4: ALL,
}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return suite.jobs_of("tensorflow_adapter", MODULES, tmp_path_factory.mktemp)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("size", "check"), suite.cases_of(MODULES))
def test_tensorflow(job, size, check):
    suite.judge(job(size).outcome(check))
