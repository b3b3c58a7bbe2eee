# SPDX-License-Identifier: Apache-2.0
"""horovod.keras and horovod.tensorflow.keras on two ranks of horovodrun."""

import importlib.util

import pytest
import suite

if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("TensorFlow is not installed", allow_module_level=True)

MODULES = {2: ["gradient_checks", "keras_checks"]}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return suite.jobs_of("tensorflow_adapter", MODULES, tmp_path_factory.mktemp)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("size", "check"), suite.cases_of(MODULES))
def test_keras(job, size, check):
    suite.judge(job(size).outcome(check))
