"""Costs and side effects of imports: nothing global, nothing heavy, and no torch before it is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

# One process answers for all tests: it looks at the world before and after each import.
PROBE = r"""
import importlib, json, multiprocessing, os, pkgutil, random, sys, threading, warnings

def heavy():
    names = ("torch", "tensordict", "gymnasium", "plotly", "pygame", "IPython", "ipywidgets", "anywidget", "matplotlib",
             "pandas", "PIL", "numba", "h5py", "scipy", "torchrl", "jupyter_client", "rlnb_widgets")
    return sorted(name for name in names if name in sys.modules)

report = {}
random.seed(1)
base = random.getstate()
import rlnb
report["rlnb"] = {"heavy": heavy(), "random": random.getstate() == base}

import numpy, torch, tensordict, gymnasium

def world():
    return {
        "start method": multiprocessing.get_start_method(allow_none=True),
        "torch start method": torch.multiprocessing.get_start_method(allow_none=True),
        "torch sharing": torch.multiprocessing.get_sharing_strategy(),
        "random": hash(random.getstate()),
        "numpy": hash(numpy.random.get_state()[1].tobytes()),
        "torch rng": hash(bytes(torch.get_rng_state().numpy())),
        "dtype": str(torch.get_default_dtype()),
        "device": str(torch.get_default_device()),
        "threads": torch.get_num_threads(),
        "interop": torch.get_num_interop_threads(),
        "grad": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "print options": str(torch._tensor_str.PRINT_OPTS) + str(numpy.get_printoptions()),
        "lazy legacy": tensordict.lazy_legacy(),
        "list to stack": tensordict.list_to_stack(),
        "capture non-tensor": tensordict.capture_non_tensor_stack(),
        "warnings": [str(f) for f in warnings.filters],
        "gym registry": sorted(gymnasium.registry),
        "environment": dict(os.environ),
        "excepthook": sys.excepthook is sys.__excepthook__,
        "path": list(sys.path),
        "process threads": threading.active_count(),
    }

before = world()
packages = [info.name for info in pkgutil.iter_modules(rlnb.__path__, "rlnb.") if info.ispkg]
for name in packages:
    importlib.import_module(name)
after = world()
report["changed"] = {key: [before[key], after[key]] for key in before if before[key] != after[key]}
report["heavy"] = heavy()
for name in ("rlnb.collectors.distributed", "rlnb.data.datasets", "rlnb.data.rlhf"):
    importlib.import_module(name)
optional = ("brax", "datasets", "jax", "jumanji", "minari", "pettingzoo", "pyarrow", "pyspiel", "ray", "sklearn",
            "tokenizers", "transformers", "vmas")
report["optional"] = sorted(set(optional) & set(sys.modules))
report["packages"] = packages
print(json.dumps(report))
"""


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_importing_rlnb_imports_no_torch_and_draws_no_random_number(report: dict[str, Any]) -> None:
    assert report["rlnb"] == {"heavy": [], "random": True}


def test_importing_the_library_changes_nothing_global(report: dict[str, Any]) -> None:
    assert {"rlnb.data", "rlnb.envs"} <= set(report["packages"])
    assert report["changed"] == {}


def test_importing_the_library_imports_nothing_heavy_but_what_it_stands_on(report: dict[str, Any]) -> None:
    assert report["heavy"] == ["gymnasium", "tensordict", "torch"]


def test_importing_what_needs_optional_libraries_imports_none_of_them(report: dict[str, Any]) -> None:
    assert report["optional"] == []
