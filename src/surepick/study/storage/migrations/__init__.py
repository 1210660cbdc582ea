"""Revisions of the tables, for Alembic: `env.py` is what it calls first, `versions` has one file for each."""
