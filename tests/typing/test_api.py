from tests.typing import api


def test_the_typed_examples_run() -> None:
    """What the type checker accepts works at run time."""
    api.everything()
