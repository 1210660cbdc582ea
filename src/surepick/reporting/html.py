"""Pages that need nothing else: templates in which every text is escaped, and figures as part of the page."""

import base64
from importlib.util import find_spec
from typing import Any

from surepick.errors import SurepickError


def template(name: str, package: str = "surepick.reporting", **options: Any) -> Any:
    """Return a template of a package, which may include those of this one, such as `look.css`.

    Texts come from users, so they are escaped: for HTML, unless options say how.
    """
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 (optional)
    except ImportError as error:
        raise SurepickError("a report needs Jinja2; install surepick[report].") from error
    loader = ChoiceLoader([PackageLoader(one) for one in dict.fromkeys((package, "surepick.reporting"))])
    options = {"autoescape": "finalize" not in options, **options}
    environment = Environment(  # noqa: S701 (see above)
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, **options
    )
    return environment.get_template(name)


def data_uri(svg: bytes) -> str:
    """A figure as part of the page; inside an image its identifiers cannot meet those of another figure."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def check_ready() -> None:
    """Refuse to promise a report that cannot be written."""
    missing = [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]
    if missing:
        raise SurepickError(f"a report needs {' and '.join(missing)}; install surepick[report].")
