"""Importing the package: what it loads. How long that takes is in the benchmark `speed`."""

import json
import subprocess
import sys
from types import ModuleType

import pytest

import surepick as sp

# What NumPy and SciPy themselves load beyond the standard library is their business.
SCRIPT = """
import json, sys
import numpy, scipy, threadpoolctl
before = set(sys.modules)
import surepick
surepick.identify
roots = {name.partition(".")[0] for name in set(sys.modules) - before}
added = sorted(roots - set(sys.stdlib_module_names) - {"numpy"})
parts = {name for name in sys.modules if name.startswith("scipy.")} & {f"scipy.{part}" for part in scipy.__all__}
print(json.dumps({"added": added, "parts": sorted(parts)}))
"""


def test_import_alone_loads_no_library_at_all() -> None:
    """Help, versions and errors do not wait for arrays: every name but the errors is loaded on first use."""
    script = "import sys, surepick; assert not {'numpy', 'scipy'} & set(sys.modules), 'numpy or scipy'"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_every_public_name_is_found_where_the_table_says() -> None:
    """A name that its file does not have would come back as the file."""
    for name in set(sp.__all__) - {"__version__"}:
        assert isinstance(getattr(sp, name), ModuleType) == (
            name in ("algorithms", "stopping", "problems", "testing")
        ), name
        assert name in dir(sp)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sp.nothing


def test_first_use_loads_numpy_and_scipy_only() -> None:
    """No frames, plots, databases, servers or process pools come with the default."""
    answer = json.loads(
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    )
    assert answer["added"] == ["surepick"]
    assert answer["parts"] == [], "SciPy's parts are to load on first use: write scipy.linalg.qr, not an import of it"


def test_every_module_of_the_core_imports_on_its_own() -> None:
    """No module relies on another having been imported first, which a cycle would need."""
    script = """
import importlib, pkgutil, sys
import surepick.core
names = [module.name for module in pkgutil.walk_packages(surepick.core.__path__, "surepick.core.")]
assert len(names) > 10, names
for name in names:
    for other in [other for other in sys.modules if other.partition(".")[0] == "surepick"]:
        del sys.modules[other]
    importlib.import_module(name)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
