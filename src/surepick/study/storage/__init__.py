"""Where the events of studies are kept: in memory, in an SQLite file, or in a PostgreSQL database.

`protocol.py` says what a storage does; `open_storage` finds the one that an address means.
"""

from surepick.study.storage.base import Storage, Summary, Writer
from surepick.study.storage.opening import open_storage

__all__ = ["Storage", "Summary", "Writer", "open_storage"]
