"""Where the events of studies are kept: in memory, in an SQLite file, or in a PostgreSQL database.

`protocol.py` says what a storage does; `open_storage` finds the one that an address means.
"""

from surepick.study.storage.opening import open_storage
from surepick.study.storage.protocol import Storage, Summary, Writer

__all__ = ["Storage", "Summary", "Writer", "open_storage"]
