"""Plans and errors in the words of the page of a new study."""

import pytest

import surepick as sp
from surepick.reporting.new_study_view import in_page, plan_view


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'use name_column="T" if it names the arms, or drop="T".',
            "use the role \"name of the arm\" for 'T' if it names",
        ),
        ("Leave such features out, or let `on_span` do it.", "Leave such features out."),
        ('say which has the arms: sheet="A".', 'say which has the arms in the field "Sheet".'),
        ("or say another `name_column`.", "or change roles."),
        ("`gap` must be above 0.", '"lead" must be above 0.'),
    ],
)
def test_options_are_fields_and_roles(text: str, said: str) -> None:
    """A person at the page never reads the name of a Python option."""
    assert in_page(text).startswith(said)


def test_a_plan_says_what_a_budget_allows() -> None:
    """In pulls, or in cost; the table marks the plan itself."""
    arms = [[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]]
    planned = sp.plan(arms, gap=0.3, noise_std=0.5, delta=0.01)
    view = plan_view(planned, {"budget": 10.0})
    assert "Your budget of 10 is below that" in view.words
    assert "budget" not in plan_view(planned, {"budget": 1e6}).words
    assert view.table.first is not None
    assert view.table.rows[view.table.first][0].text == "99 %"
    costly = plan_view(sp.plan(arms, gap=0.3, noise_std=0.5, costs=[5.0, 5.0, 5.0]), {"budget": 1e3})
    assert costly.table.headers[-1] == "Cost"
    assert len(costly.table.rows[0]) == len(costly.table.headers)
