"""horovod.torch on two and on four ranks, and on one without a launcher."""

import pytest
import suite

MODULES = ["conformance", "torch_checks", "torch_elastic_checks"]
CHECKS = [check for module in MODULES for check in suite.checks_of(module)]


@pytest.fixture(scope="module", params=[2, 4], ids=lambda size: f"{size}_ranks")
def job(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"ranks{request.param}")
    return suite.Job(folder, "torch_adapter", MODULES, request.param)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("check", CHECKS)
def test_torch(job, check):
    outcome, text = job.outcome(check)
    if outcome == "skipped":
        pytest.skip(text)
    assert outcome == "passed", text
