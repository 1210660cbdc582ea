"""Runs the revisions on the connection that `schema.py` hands over; Alembic calls it."""

from alembic import context

from surepick.study.storage.schema import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
context.run_migrations()
