# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow.keras with Keras 2 on two ranks of horovodrun."""

import importlib.util

import pytest
import suite

if importlib.util.find_spec("tf_keras") is None:
    pytest.skip("tf-keras is not installed", allow_module_level=True)

# In this order: the second module turns eager execution off permanently.
MODULES = {2: ["keras_2_checks", "keras_2_graph_checks"]}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return suite.jobs_of("keras_2_adapter", MODULES, tmp_path_factory.mktemp)


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("size", "check"), suite.cases_of(MODULES))
def test_keras_2(job, size, check):
    suite.judge(job(size).outcome(check))
