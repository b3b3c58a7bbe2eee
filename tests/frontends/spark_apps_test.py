# SPDX-License-Identifier: Apache-2.0
"""Horovod on Spark as its users start it: plain scripts, spark-submit, a notebook, Ctrl-C."""

import importlib.util
import json
import os
import pathlib
import re
import runpy
import signal
import subprocess
import sys
import types

import pytest
import spark_session
from processes import is_alive, wait_until

MISSING = [
    name
    for name in ("torch", "tensorflow", "nbclient", "ipykernel")
    if importlib.util.find_spec(name) is None
]
if MISSING:
    pytest.skip(f"{MISSING[0]} is not installed", allow_module_level=True)

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
SECONDS = 400
pytestmark = pytest.mark.timeout(SECONDS + 60)


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """The environment of a Spark user, without variables of other runs of Horovod."""
    for name in os.environ:
        if "HOROVOD" in name:
            monkeypatch.delenv(name)
    settings = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
        "SPARK_HOME": str(spark_session.HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        "TMPDIR": str(tmp_path),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)


def output_of(*command) -> str:
    done = subprocess.run(
        list(map(str, command)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_a_script_for_horovod_runner_runs_under_spark_submit_and_leaves_a_timeline(tmp_path):
    submit = spark_session.HOME / "bin" / "spark-submit"
    script = EXAMPLES / "15_horovod_runner_pytorch.py"
    options = ("--master", "local[2]", "--conf", "spark.ui.enabled=false")
    shown = output_of(submit, *options, script, "--folder", tmp_path)
    assert "2 processes recognise 9" in shown, shown
    assert shown.count("rank 0 of 2 has saved epoch 6") == 1, shown
    (timeline,) = tmp_path.glob("digits-*/horovod_timeline.json")
    assert f"timeline: {timeline}" in shown
    events = json.loads(timeline.read_text())
    assert any("ALLREDUCE" in event.get("name", "") for event in events)


# Two applications in one process, because a context takes longer to start than either of them.
RUN_ALL = """
import runpy, sys
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
for path in sys.argv[1:]:
    sys.argv = [path]
    print("==", path.rpartition("/")[2], flush=True)
    runpy.run_path(path, run_name="__main__")
"""


def test_scripts_run_on_a_spark_of_their_own_and_hear_how_training_goes():
    examples = [EXAMPLES / "14_spark_run.py", EXAMPLES / "16_horovod_runner_keras.py"]
    shown = output_of(sys.executable, "-c", RUN_ALL, *examples)
    pytorch, keras = (part.split("\n", 1)[1] for part in shown.split("== ")[1:])
    for rank in (0, 1):
        assert f"[{rank}]<stdout>:epoch 6: loss 0." in pytorch, pytorch
        assert f"rank {rank} recognises 9" in pytorch, pytorch
    assert "2 processes recognise 9" in keras, keras
    # From the one rank that has the callback, and before the script continues.
    ends = re.findall(r"^Epoch (\d) ends after .* s: accuracy 0\.", keras, re.MULTILINE)
    assert ends == ["1", "2", "3", "4", "5", "6"], keras
    assert keras.index("Epoch 6 ends") < keras.index("2 processes")


SLEEPER = """
import pathlib
import sys

import horovod.spark
from pyspark.sql import SparkSession


def sleeps_with_a_child(folder):
    import os
    import subprocess
    import time

    child = subprocess.Popen(["sleep", "300"])
    path = pathlib.Path(folder) / f"pids.{os.environ['HOROVOD_RANK']}"
    path.with_name("part" + path.suffix).write_text(f"{os.getpid()} {child.pid}")
    path.with_name("part" + path.suffix).rename(path)
    time.sleep(300)


SparkSession.builder.getOrCreate()
horovod.spark.run(sleeps_with_a_child, args=(sys.argv[1],), num_proc=2)
"""


def test_ctrl_c_ends_a_script_and_all_that_its_ranks_have_started(tmp_path):
    script = tmp_path / "sleeper.py"
    script.write_text(SLEEPER)
    driver = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: len(list(tmp_path.glob("pids.*"))) == 2, 200)
        pids = [int(p) for path in tmp_path.glob("pids.*") for p in path.read_text().split()]
        assert all(map(is_alive, pids))
        # Like a terminal: the signal reaches the driver and its whole group, with Spark.
        os.killpg(driver.pid, signal.SIGINT)
        shown, _ = driver.communicate(timeout=60)
        assert driver.returncode == -signal.SIGINT, shown
        assert "\nKeyboardInterrupt" in shown, shown  # Spark may log something after it
        wait_until(lambda: not any(map(is_alive, pids)), 60)
    finally:
        driver.kill()
        driver.communicate()


CELLS = {
    "session": """
import sys
import horovod.spark
from pyspark.sql import SparkSession
from sparkdl import HorovodRunner
spark = SparkSession.builder.getOrCreate()
""",
    "function": """
base = 40
def train(rate):
    import numpy as np
    from horovod.common import arrays, basics
    from sparkdl.horovod import log_to_driver
    basics.init()
    print(f"rank {basics.rank()} prints", flush=True)
    log_to_driver(f"rank {basics.rank()} tells")
    total = arrays.allreduce(np.ones(1), op=basics.Sum)
    return base + rate * total[0] + basics.rank()
""",
    # Like the button of a notebook, after all ranks have started to work.
    "interrupted": """
import os, pathlib, signal, threading, time
here = os.getcwd()
def sleeps():
    pathlib.Path(here, "sleeps." + os.environ["HOROVOD_RANK"]).write_text(str(os.getpid()))
    time.sleep(300)
def interrupt():
    while len(list(pathlib.Path(here).glob("sleeps.*"))) < 2:
        time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    horovod.spark.run(sleeps, num_proc=2)
except KeyboardInterrupt:
    print("interrupted")
""",
    "run": "horovod.spark.run(train, args=(0.5,), num_proc=2, stdout=sys.stdout)",
    "shell": "horovod.spark.run(train, args=(4.5,))",
    "all": 'HorovodRunner(np=2, driver_log_verbosity="all").run(train, rate=1.5)',
    "callback only": "HorovodRunner(np=2).run(train, rate=2.5)",
    "driver": "HorovodRunner(np=-2).run(train, rate=3.5)",
}


def test_a_notebook_shows_in_its_cells_what_ranks_say_and_return(tmp_path, capfd):
    import nbclient
    import nbformat

    cells = [nbformat.v4.new_code_cell(text.strip()) for text in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=200, kernel_name="python3").execute()
    shown, results = {}, {}
    for name, cell in zip(CELLS, notebook.cells):
        streams = [out["text"] for out in cell.outputs if out.get("name") == "stdout"]
        shown[name] = sorted("".join(streams).splitlines())
        values = [out.data["text/plain"] for out in cell.outputs if "data" in out]
        results[name] = eval("".join(values) or "None", {"np": __import__("numpy")})
    prints = [f"[{rank}]<stdout>:rank {rank} prints" for rank in (0, 1)]
    tells = [f"rank {rank} tells" for rank in (0, 1)]
    assert results == {
        **dict.fromkeys(("session", "function", "interrupted")),
        **{"run": [41, 42], "shell": [49, 50], "all": 43, "callback only": 45, "driver": 47},
    }
    assert shown["interrupted"] == ["interrupted"]
    assert not any(is_alive(int(path.read_text())) for path in tmp_path.glob("sleeps.*"))
    # Only HorovodRunner shows messages; here log_to_driver prints them.
    told = [f"[{rank}]<stdout>:rank {rank} tells" for rank in (0, 1)]
    assert shown["run"] == sorted([*prints, *told])
    # As in a shell, without stdout=: no labels.
    assert shown["shell"] == sorted([*(f"rank {rank} prints" for rank in (0, 1)), *tells])
    assert shown["all"] == [*prints, *tells]
    assert shown["callback only"] == tells
    assert shown["driver"] == sorted([*prints, *told])
    # Spark's log is the kernel's standard error: it must not show the output a second time.
    assert capfd.readouterr().err.count("rank 1 prints\n") == 1  # of "callback only"


def test_a_metric_that_is_no_number_does_not_end_training(monkeypatch):
    import numpy as np

    # The callback's class needs TensorFlow, which takes seconds to import. The texts do not.
    callbacks = types.SimpleNamespace(Callback=object)
    tensorflow = types.SimpleNamespace(keras=types.SimpleNamespace(callbacks=callbacks))
    monkeypatch.setitem(sys.modules, "tensorflow", tensorflow)
    module = runpy.run_module("sparkdl.horovod.tensorflow.keras")
    shown = module["_shown"]({"loss": np.float32(0.5), "f1": np.array([0.25, 1.0])})
    assert shown == "loss 0.5, f1 [0.25 1.  ]"
