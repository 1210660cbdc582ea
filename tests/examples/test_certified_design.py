import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "examples" / "certified_design.py"


def test_script_prints_a_verified_design() -> None:
    """The main example ends well and says that its design was verified."""
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=True)
    assert "verified: True" in done.stdout
