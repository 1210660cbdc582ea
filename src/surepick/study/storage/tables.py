"""The tables of a database of studies, and every statement on them."""

VERSION_TABLE = "surepick_version"
"""Holds the number of the last migration, and marks a database as surepick's."""

MIGRATIONS = (
    (  # In the first release: the names of studies, and their events.
        """CREATE TABLE surepick_version ( version_num VARCHAR(32) NOT NULL,
            CONSTRAINT surepick_version_pkc PRIMARY KEY (version_num) )""",
        "INSERT INTO surepick_version VALUES ('0')",
        "CREATE TABLE studies ( {own_id}, name TEXT NOT NULL, UNIQUE (name) )",
        """CREATE TABLE events ( study INTEGER NOT NULL, n INTEGER NOT NULL, text TEXT NOT NULL, hash TEXT NOT NULL,
            PRIMARY KEY (study, n), FOREIGN KEY(study) REFERENCES studies (id) ){side_by_side}""",
    ),
    (  # The newest status of each study, a cache that may lag behind the log.
        """CREATE TABLE summaries ( study INTEGER NOT NULL PRIMARY KEY, n INTEGER NOT NULL, hash TEXT NOT NULL,
            text TEXT NOT NULL, FOREIGN KEY(study) REFERENCES studies (id) )""",
    ),
    (  # Tokens of a server. A study's name and not its number: a token stays if its study is made anew.
        """CREATE TABLE tokens ( {own_id}, token TEXT NOT NULL, digest TEXT NOT NULL, role TEXT NOT NULL, study TEXT,
            label TEXT NOT NULL, created_at TEXT NOT NULL, revoked_at TEXT, UNIQUE (token), UNIQUE (digest) )""",
    ),
)
"""The statements that bring the tables from each revision to the next; a `Database` fills in the braces.

A migration that was released never changes: databases exist that have its tables.
"""

WITH_TOKENS = 3
"""The first revision that has a table of tokens."""

NEWEST = len(MIGRATIONS)
"""The revision of the tables that this package writes."""

# The row `after` itself comes first, without its text: it shows that the log reaches that far.
_ROWS = (
    "SELECT n, CASE WHEN n > :after THEN text ELSE '' END, hash FROM events WHERE study = {} AND n >= :after ORDER BY n"
)
_SUMMARIES = (
    "SELECT studies.name, last.n, first.text, last.text, last.hash, {} FROM studies"
    " JOIN events AS first ON first.study = studies.id AND first.n = 1"
    " JOIN events AS last ON last.study = studies.id"
    " AND last.n = (SELECT max(n) FROM events WHERE study = studies.id)"
)
_ID = "(SELECT id FROM studies WHERE name = :name)"

STATEMENTS = {
    "names": "SELECT name FROM studies",
    "summaries": _SUMMARIES.format("kept.n, kept.hash, kept.text") + " LEFT JOIN summaries AS kept ON kept.study = id",
    "summaries of revision 1": _SUMMARIES.format("NULL, NULL, NULL"),
    "length": f"SELECT max(n) FROM events WHERE study = {_ID}",  # noqa: S608 (our own text)
    "read": f"{_ROWS.format(_ID)} LIMIT :limit",
    "read claimed": _ROWS.format(":study"),
    "end": "SELECT n, hash FROM events WHERE study = :study ORDER BY n DESC LIMIT 1",
    "add study": "INSERT INTO studies (name) VALUES (:name)",
    "id": "SELECT id FROM studies WHERE name = :name",
    "append": "INSERT INTO events (study, n, text, hash) VALUES (:study, :n, :text, :hash)",
    "keep summary": "INSERT INTO summaries (study, n, hash, text)"
    " SELECT id, :n, :hash, :text FROM studies WHERE name = :name"
    " ON CONFLICT (study) DO UPDATE SET n = excluded.n, hash = excluded.hash, text = excluded.text"
    " WHERE excluded.n >= summaries.n",
    "delete summary": "DELETE FROM summaries WHERE study = :study",
    "delete events": "DELETE FROM events WHERE study = :study",
    "delete study": "DELETE FROM studies WHERE id = :study",
    "tokens": "SELECT token, digest, role, study, label, created_at, revoked_at FROM tokens ORDER BY id",
    "add token": "INSERT INTO tokens (token, digest, role, study, label, created_at, revoked_at)"
    " VALUES (:id, :digest, :role, :study, :label, :created_at, :revoked_at)",
    "revoke token": "UPDATE tokens SET revoked_at = COALESCE(revoked_at, :at) WHERE token = :id",
    "revision": "SELECT version_num FROM surepick_version",
}
"""All statements on our tables, with parameters in SQLite's notation."""
