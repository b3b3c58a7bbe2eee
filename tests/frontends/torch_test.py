"""horovod.torch on two, three and four ranks of horovodrun."""

import pytest
import suite

# What differs with three ranks, a number that is no power of two, is the collectives.
ALL = ["conformance", "torch_checks", "torch_elastic_checks"]
MODULES = {2: ALL, 3: ["conformance"], 4: ALL}


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return suite.jobs_of("torch_adapter", MODULES, tmp_path_factory.mktemp)


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("size", "check"), suite.cases_of(MODULES))
def test_torch(job, size, check):
    suite.judge(job(size).outcome(check))
