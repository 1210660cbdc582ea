"""Parts of the documentation that are made when it is built: formulas, the list of modules, pictures."""

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surepick.learning.result import Result

PACKAGE = Path(__file__).parents[1] / "src" / "surepick"


def mathml(latex: str, display: str) -> str:
    """A formula as browsers show it by themselves: no script, no network."""
    from latex2mathml.converter import convert  # noqa: PLC0415 (the rest needs no more than Python)

    code = convert(latex, display=display)
    for pattern, better in (
        # Without a little space one cannot see where log, det and the like end.
        (r"<(m[io])[^>]*>([a-z]{2,})</\1>", r'<mo lspace="0.1em" rspace="0.1em">\2</mo>'),
        # Bars would stretch on one side only, and a large bracket with an exponent not at all.
        (r"<mo>(&#x02016;|&#x0007C;)</mo>", r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>'),
        (r"<msup>(<mo minsize=[^>]*>[^<]*</mo>)", r'\1<msup><mspace height="0.9em" />'),
        # The order of matrices is a relation, infinity is a number.
        (r"<mi>(&#x02AB0;|&#x02AAF;)</mi>", r"<mo>\1</mo>"),
        (r"<mo>(&#x0221E;)</mo>", r"<mi>\1</mi>"),
    ):
        code = re.sub(pattern, better, code)
    return code


def purposes() -> dict[str, str]:
    """Every module of the package and the first line of its docstring, by name."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = ["surepick", *path.relative_to(PACKAGE).with_suffix("").parts]
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8")))
        found[".".join(parts).removesuffix(".__init__")] = (docstring or "").split("\n")[0]
    return dict(sorted(found.items()))


def module_table() -> str:
    """The modules in Markdown."""
    rows = [f"| `{name}` | {purpose} |" for name, purpose in purposes().items()]
    return "\n".join(["| module | purpose |", "|---|---|", *rows])


def evidence() -> list[float]:
    """Evidence over what the rule asks for, pull by pull, in one small run."""
    import numpy as np  # noqa: PLC0415

    import surepick as sp  # noqa: PLC0415

    rng = np.random.default_rng(4)
    angles = np.array([0.0, 0.4, 0.9, 1.5, 2.2])
    arms = np.column_stack([np.cos(angles), np.sin(angles)])
    learner = sp.create_learner("lazy-track-and-stop", arms, delta=0.05, noise_std=0.5, stopping="evidence")
    path = []
    while not learner.stopped:
        row = learner.next_arms(1)[0]
        learner.tell(row, float(arms[row] @ [1.0, 0.0] + 0.5 * rng.standard_normal()))
        path.append(max(0.0, learner.decision.evidence / learner.decision.target))
    return path


def picture() -> str:
    """The loop of ask, measure and tell beside the evidence of a real run, as SVG inside HTML without empty lines."""
    path = evidence()
    width, height, top = 280.0, 150.0, 60.0  # of the plot; its upper edge is where the rule stops
    steps = [(40 + width * n / len(path), top + height * (1 - min(y, 1.0))) for n, y in enumerate([0.0, *path])]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in steps)
    boxes = [
        (110, 20, "ask", "which option next?"),
        (205, 150, "measure", "your experiment, noisy"),
        (15, 150, "tell", "what came out"),
    ]
    drawn = [
        f'<rect x="{x}" y="{y}" width="140" height="58" rx="10" class="box"/>'
        f'<text x="{x + 70}" y="{y + 26}" class="name">{name}</text>'
        f'<text x="{x + 70}" y="{y + 45}" class="small">{what}</text>'
        for x, y, name, what in boxes
    ]
    arrows = ["M 225 84 L 262 144", "M 199 179 L 163 179", "M 98 144 L 135 84"]
    drawn += [f'<path d="{path}" class="arrow" marker-end="url(#tip)"/>' for path in arrows]
    loop = "\n".join(drawn)
    return f"""<div class="loop">
<svg viewBox="0 0 360 240" role="img" aria-label="A loop: ask, measure, tell, until the answer is sure">
<defs><marker id="tip" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7" orient="auto">
<path d="M 0 0 L 10 5 L 0 10 z" class="tip"/></marker></defs>
{loop}
<text x="180" y="128" class="small">until it is sure</text>
</svg>
<svg viewBox="0 0 360 240" role="img" aria-label="Evidence grows with every measurement until it reaches the threshold">
<path d="M 40 30 L 40 210 L 340 210" class="axis"/>
<path d="M 40 {top:g} L 340 {top:g}" class="goal"/>
<text x="44" y="{top - 10:g}" class="small left">sure enough: a wrong answer has probability at most δ</text>
<polyline points="{points}" class="evidence"/>
<circle cx="{steps[-1][0]:.1f}" cy="{top:g}" r="5" class="stop"/>
<text x="336" y="{top + height - 8:g}" class="small right">stop after {len(path)}</text>
<text x="190" y="230" class="small">measurements</text>
<text x="30" y="135" class="small" transform="rotate(-90 30 135)">evidence</text>
</svg>
</div>"""


def misfit_picture() -> str:
    """Measured against fitted means of sixteen settings, with and without an interaction that no feature says."""
    import itertools  # noqa: PLC0415
    import warnings  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415

    import surepick as sp  # noqa: PLC0415

    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    settings = np.column_stack([np.ones(16), signs])
    drawn = []
    for clash in (0.35, 0.0):
        rng = np.random.default_rng(1)
        means = settings @ [0.0, 0.5, 0.4, 0.3, 0.15] - clash * signs[:, 2] * signs[:, 3]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sp.ModelWarning)
            result = sp.identify(settings, lambda row, m=means, r=rng: m[row] + r.standard_normal(), audit="auto")  # type: ignore[misc]
        drawn.append(_scatter(result, "with the clash" if clash else "without it"))
    return '<div class="loop">\n' + "\n".join(drawn) + "\n</div>"


def _scatter(result: "Result", title: str) -> str:
    rewards: dict[int, list[float]] = {}
    for arm, reward in result.history:
        rewards.setdefault(arm, []).append(reward)
    low, span = -2.2, 4.4

    def place(fit: float, mean: float) -> tuple[float, float]:
        return 40 + 300 * (fit - low) / span, 210 - 180 * (mean - low) / span

    marks = []
    for arm, values in sorted(rewards.items()):
        fit, mean = float(result.arms.estimate[arm]), sum(values) / len(values)
        bar = 2.0 * result.noise_std / len(values) ** 0.5
        (x, y), (_, bottom), (_, top) = place(fit, mean), place(fit, mean - bar), place(fit, mean + bar)
        kind = "misfit" if abs(mean - fit) > bar else "fits"
        marks.append(f'<path d="M {x:.1f} {bottom:.1f} L {x:.1f} {top:.1f}" class="axis"/>')
        marks.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{kind}"/>')
    (x1, y1), (x2, y2) = place(low, low), place(low + span, low + span)
    verdict = "alarm: the answer is withdrawn" if result.guarantee == "withdrawn" else "no alarm: the model stands"
    inside = "\n".join(marks)
    label = f"Measured means against fitted ones, {title}: {verdict}"
    return f"""<svg viewBox="0 0 360 240" role="img" aria-label="{label}">
<path d="M 40 30 L 40 210 L 340 210" class="axis"/>
<path d="M {x1:.1f} {y1:.1f} L {x2:.1f} {y2:.1f}" class="goal"/>
{inside}
<text x="44" y="20" class="small left">{title}; {verdict}</text>
<text x="190" y="230" class="small">fitted mean</text>
<text x="30" y="135" class="small" transform="rotate(-90 30 135)">measured mean</text>
</svg>"""
