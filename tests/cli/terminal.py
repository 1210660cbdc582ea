"""A terminal for tests of the command line."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

from tests.waiting import LIMIT


def in_terminal(
    folder: Path, *arguments: str, keys: bytes = b"", after: str = "", meanwhile: Callable[[str], object] = len
) -> tuple[str, int]:
    """Run the command line on a terminal of its own; send `keys` once the text `after` has appeared.

    `meanwhile` is called with the text so far, whenever there is more.
    """
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, "-m", "surepick", *arguments])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    shown, sent, give_up = "", not keys, time.monotonic() + LIMIT
    while time.monotonic() < give_up:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other side is gone
            break
        if not data:
            break
        shown += data.decode("utf-8", errors="replace")
        meanwhile(shown)
        if not sent and after in shown:
            os.write(terminal, keys)
            sent = True
    else:
        os.kill(child, signal.SIGKILL)  # nobody reads any more, and it would wait for ever
    _, status = os.waitpid(child, 0)
    return shown, os.waitstatus_to_exitcode(status)
