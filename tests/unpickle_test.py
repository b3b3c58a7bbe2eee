# SPDX-License-Identifier: Apache-2.0
"""Loading a pickle executes code from it. Few places may do so, each with a reason."""

import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent / "python"
PICKLES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "torch", "jsonpickle"}
LOADERS = {"load", "loads", "Unpickler", "open"}
OWN = "horovod.common.pickling"  # loads by cloudpickle, so a call of it counts as well

# By file: the number of calls, and why the bytes are from a rank or process of this job.
ALLOWED = {
    # The function that the following files call.
    "horovod/common/pickling.py": 1,
    # After the seals were verified: core/net/seal.h.
    "horovod/common/objects.py": 2,
    # Two read from the authenticated rendezvous server, whose frames have tags; one loads its own
    # dump.
    "horovod/runner/rendezvous.py": 3,
    # For the caller's own texts; the package does not use it.
    "horovod/runner/common/util/codec.py": 1,
}


def loads_pickles(module: str) -> bool:
    return module.split(".")[0] in PICKLES or module == OWN


def loads_in(text: str) -> int:
    """The number of calls in a module that load a pickle, by any import name."""
    modules, functions = set(), set()
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {a.asname or a.name for a in node.names if loads_pickles(a.name)}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if loads_pickles(module):
                functions |= {a.asname or a.name for a in node.names if a.name in LOADERS}
            modules |= {a.asname or a.name for a in node.names if f"{module}.{a.name}" == OWN}
    count = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            count += ast.unparse(node.value) in modules and node.attr in LOADERS
        elif isinstance(node, ast.Name):
            count += node.id in functions
    return count


def test_pickles_are_loaded_in_few_places():
    found = {}
    for path in ROOT.rglob("*.py"):
        if count := loads_in(path.read_text()):
            found[path.relative_to(ROOT).as_posix()] = count
    assert found == ALLOWED


def test_front_ends_have_no_objects_of_their_own():
    for name in ("torch/functions.py", "tensorflow/functions.py", "_keras/elastic.py"):
        text = (ROOT / "horovod" / name).read_text()
        assert "horovod.common" in text and "objects" in text and "_core.seal" not in text


def test_codec_is_not_used_in_the_package():
    for path in (ROOT / "horovod").rglob("*.py"):
        text = path.read_text()
        assert "loads_base64(" not in text or path.name == "codec.py", path


def test_a_load_is_found_by_any_name():
    assert loads_in("import pickle\npickle.loads(x)") == 1
    assert loads_in("import cloudpickle as c\nf = c.loads") == 1
    assert loads_in("from pickle import loads as parse\nparse(x)") == 1
    assert loads_in("def f():\n  import torch\n  torch.load(x)") == 1
    assert loads_in("from horovod.common import pickling\npickling.loads(x)") == 1
    assert loads_in("from horovod.common import pickling as p, settings\np.loads(x)") == 1
    assert loads_in("from horovod.common.pickling import loads\nloads(x)") == 1
    assert loads_in("import horovod.common.pickling\nhorovod.common.pickling.loads(x)") == 1
    assert loads_in("from horovod.common import pickling\npickling.dumps(x)") == 0
    assert loads_in("import json, pickle\njson.loads(x); pickle.dumps(x)") == 0
