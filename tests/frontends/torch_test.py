# SPDX-License-Identifier: Apache-2.0
"""horovod.torch on one to four ranks of horovodrun."""

import pytest
import suite

# Programs run before the checks that import submodules by name.
PROGRAMS = ["torch_programs_checks"]
OTHERS = ["torch_checks", "torch_elastic_checks"]
# Only the collectives behave differently with three ranks, which is not a power of two.
MODULES = {
    1: PROGRAMS,
    2: ["conformance", *PROGRAMS, *OTHERS],
    3: ["conformance", *PROGRAMS],
    4: ["conformance", *OTHERS],
}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return suite.jobs_of("torch_adapter", MODULES, tmp_path_factory.mktemp)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("size", "check"), suite.cases_of(MODULES))
def test_torch(job, size, check):
    suite.judge(job(size).outcome(check))
