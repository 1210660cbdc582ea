"""Check the certificate of a study against its log: one file, numpy alone, written apart from the package.

`python standalone.py certificate.json log.csv`; columns n, hash, event (the text hashed), or JSON {"log": [{"n", ..}]}.
Exit code 0: all agrees; 1: it does not; 2: unreadable, or unusual bets (docs/guarantee.md); 3: agrees, not all checked.
A belief is the posterior by the likeliest prior N(0, t2 I + t1 uu') of a grid, arms being x R^-1; event 1 fixed R, u.
"""

import csv
import json
import math
import sys
from hashlib import sha256

import numpy as np

USUAL = {"kind": "finite", "rule": "betting", "epsilon": 0, "misfit": 0, "m": 1, "model": "linear", "noise": "same"}
USUAL |= {"reward_range": None, "rewards": None, "candidates": None}
STAKES, SHARES, SIGNS = np.array([[1], [0.6], [0.3]]), np.array([[2], [1], [1]] * 2) / 8, np.array([[[1]], [[-1]]])
NODES, WEIGHTS = (values[:, None, None] for values in np.polynomial.legendre.leggauss(128))
canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def need(holds, otherwise, code=1):
    if not holds:
        raise SystemExit(print(("DOES NOT AGREE:", "CANNOT BE CHECKED:", "NOT CHECKED:")[code - 1], otherwise) or code)


def step_of(r):  # Theorem 33: the step of the grid that readings lie on; 0 if no two are equal, inf if all are
    values = np.unique(r)
    if len(values) == len(r):
        return 0.0
    dust, steps = 1e-9 * np.abs(values[[0, -1]]).max(), np.diff(values)
    while len(steps := steps[steps > dust]):
        left = np.abs(steps - (least := steps.min()) * np.round(steps / least))
        if not (left > dust).any():
            return least
        steps = np.append(left, least)
    return math.inf


def repeats(X, r, rss):  # whether readings of an arm equal its first one too often for noise of their scatter
    _, first, arm = np.unique(X, axis=0, return_index=True, return_inverse=True)
    e, n, spare = int((r == r[first[arm.ravel()]]).sum()) - len(first), len(r) - len(first), len(r) - X.shape[1]
    if e < max(3, 0.2 * n) or spare <= 0 or (e == n and np.ptp(r) > 1e4 * step_of(r)):
        return e == n and e >= 3 and spare > 0
    if not 0 < (p := step_of(r) / math.sqrt(2 * math.pi * rss / spare) if rss > 0 else 1) < 1:
        return False
    logs = [math.log(math.comb(n, k)) + k * math.log(p) + (n - k) * math.log1p(-p) for k in range(e, n + 1)]
    return np.exp(logs).sum() < 1e-6


def bias_of(step, rss, n):  # how far rounding can move the mean of a reading, by the levels that n readings contradict
    ratios, low, high = np.array([1.05, 1.1, 1.2, 1.5, 2, 4, 16]), 0.0, 2.0 * n + 100
    for _ in range(50):
        x = (low + high) / 2
        E = np.logaddexp.reduce(-n / 2 * np.log(ratios) + (1 - 1 / ratios) * x / 2) - math.log(7)
        low, high = (x, high) if E < math.log(1e6) else (low, x)
    hidden = math.exp(-2 * math.pi**2 * (s2 - 0.1)) if (s2 := rss / high / step**2) > 0.28 else 1.0
    return min(step / 2, -step / math.pi * math.log1p(-hidden)) if hidden < 1 else step / 2


class Study:  # the fold over the events: asks, blocks, measurements, and the log wealth L against every arm
    def __init__(self):
        self.era, self.rows, self.names, self.gone, self.measured, self.said = 0, [], [], set(), [], []
        self.asks, self.plan, self.live, self.told, self.risk = {}, {}, {}, {}, 0.0

    def begin(self, event):  # an era: arms and options; results of earlier eras guide its bets, and are no evidence
        self.options, self.era, self.said, self.risk = (o := event["options"]), self.era + 1, [], self.risk + o["delta"]
        arms = event.get("arms") or event["joined"] or {"rows": [], "names": []}
        given, self.sigma = {**event, **self.options, "kind": arms.get("kind", "finite")}, self.options["noise_std"]
        odd = [key for key, value in USUAL.items() if given.get(key, value) != value]
        need(not odd and not isinstance(self.sigma, list), f"unusual {odd or 'noise_std'}; use `surepick verify`", 2)
        self.rows, self.names = self.rows + arms["rows"], self.names + (arms["names"] or [])
        self.gone, self.u, at = self.gone | set(event.get("retired", [])), np.array(event["coordinates"]["level"]), {}
        self.X, self.price = self.rows @ np.linalg.inv(event["coordinates"]["back"]), -math.log(self.options["delta"])
        self.same = np.array([at.setdefault(tuple(row), arm) for arm, row in enumerate(self.rows)])  # the first alike
        self.piles = [{m["n"]: m for m in self.measured}]  # then a block, what else was told before the next, ...
        self.advance(again=True)

    def advance(self, *, again=False):  # Theorem 18: blocks in order, each when complete; after corrections (23) anew
        if again:
            self.L, self.done = np.array([math.inf if arm in self.gone else 0.0 for arm in range(len(self.X))]), 0
            self.found = {"best": [], "evidence": None, "threshold": self.price}
        while not self.found["best"] and (ahead := self.piles[self.done :])[1:] and None not in ahead[0].values():
            idle = {"void": True} in ahead[0].values() or (not self.done and self.options.get("earlier") == "guidance")
            past, block = self.pulls(self.piles[: self.done]), self.pulls([] if idle else ahead[:1])
            leader = self.settle(*past, *block) if self.done or self.era > 1 else self.start(*block)
            if (least := float(self.L[self.same != self.same[leader]].min())) >= self.price:
                self.found |= {"best": [leader], "evidence": least}
            self.done += 2 if self.done else 1

    def pulls(self, piles):
        kept = [m for pile in piles for m in pile.values() if m and not m["void"] and m["arm"] not in self.gone]
        return self.X[[m["arm"] for m in kept]].reshape(-1, len(self.u)), np.array([m["value"] for m in kept])

    def least_squares(self, X, r):  # A, its inverse, theta, the residual sum of squares; None if the rows do not span
        scale = np.sqrt(np.diagonal(A := X.T @ X))
        if not scale.all() or np.linalg.cond(A / np.outer(scale, scale)) > 1e12:
            return None
        theta = (rough := np.linalg.solve(A, X.T @ r)) + np.linalg.solve(A, X.T @ (r - X @ rough))  # offsets cancel
        return A, np.linalg.inv(A), theta, float(((r - X @ theta) ** 2).sum())

    def start(self, X, r):  # Theorem 24: the wealth to start with, from results told before the first block
        logs, cuts = np.zeros((5, len(self.X))), [k * len(self.u) for k in (5, 20, 80, 320) if k * len(self.u) < len(r)]
        for log_E, a in zip(logs, (a for a in cuts if self.least_squares(X[:a], r[:a])), strict=False):
            first, rest, c = self.least_squares(X[:a], r[:a]), self.least_squares(X[a:], r[a:]), (a + len(r)) / 2
            leader = np.argmax((self.X @ first[2])[self.same])
            log_E[self.same != self.same[leader]] = -np.inf
            for b in np.flatnonzero(log_E) if rest else ():
                (_, inverse1, theta1, _), (A2, inverse2, theta2, rss), y = first, rest, self.X[leader] - self.X[b]
                u, v, q1 = inverse1 @ y, inverse2 @ y, y @ inverse1 @ y
                mu, Sigma = max(theta1 @ y, 0) / q1, 0.1 * inverse1 + 0.9 * np.outer(u, u) / q1
                P, n = np.linalg.slogdet(np.eye(len(y)) + Sigma @ A2)[1] / 2, v + inverse2 @ np.linalg.solve(Sigma, v)
                nu = max(theta2 @ y + mu * (y @ v), 0) / (y @ n)  # n: N^-1 y
                H2, off = nu**2 * (y @ n) - mu**2 * q1, nu * n - mu * (v + u)
                kappa, rss = 0.1 * np.linalg.eigvals(inverse1 @ A2).real.min(), max(rss, 4.9e-28 * r[a:] @ r[a:])
                B = H2 + kappa * (rss + off @ np.linalg.solve(Sigma + inverse2, off))
                x = 2 * kappa * H2 / (B + math.sqrt(max(B**2 - 4 * rss * kappa * H2, 0))) if H2 > 0 else H2 / rss
                w, gammas = min(max(1 + x, 1e-300), c / a), math.lgamma(c) - math.lgamma(a) + a * math.log(a) + c
                log_E[b] = (H2 / (2 * self.sigma**2) if self.sigma else gammas + c * math.log(w / c) - a * w) - P
        self.L = np.logaddexp.reduce(logs) - math.log(5)
        return int(np.argmin(self.L))

    def settle(self, X0, r0, X, r):  # Theorem 3, for unknown noise 19: bet by the past against every arm that is left
        past, spare = self.least_squares(X0, r0), len(r0) - len(self.u)
        if past is None or not len(r) or (not self.sigma and spare <= 0):
            return 0
        A0, inverse0, theta0, rss = past
        step = bias = known = 0.0
        if not self.sigma:  # what rounded readings can feign: by the past, or by the block if the past knew of no grid
            if math.isinf(known := step_of(r0)) or repeats(X0, r0, rss):
                return 0
            both, values = self.least_squares(all_X := np.vstack([X0, X]), all_r := np.append(r0, r)), (r0, rss)
            step, (readings, squares) = (known, values) if known else (step_of(all_r), (all_r, both[3]))
            bias = bias_of(step, squares, len(readings)) if step else 0.0
            bias = math.inf if repeats(all_X, all_r, both[3]) else bias
        variance = self.sigma**2 if self.sigma else max(rss / spare, np.finfo(float).eps ** 2 * theta0 @ theta0)
        size, E, one = theta0 @ theta0 / len(theta0), variance * inverse0, np.eye(len(theta0))
        level = self.u * (self.u @ A0 @ theta0) / max(self.u @ A0 @ self.u, 1e-300)
        priors = [size * 2.0**-j * one + t * np.outer(level, level) for t in (0, 1) for j in range(-1, 11)]
        likely = [-np.linalg.slogdet(P + E)[1] - theta0 @ np.linalg.solve(P + E, theta0) for P in priors]
        C = np.linalg.inv(np.linalg.inv(priors[np.argmax(likely)]) + A0 / variance) if size > 0 else E
        leader = int(np.argmax(np.where(self.L < self.price, (self.X @ theta0)[self.same], -np.inf)))
        spread, axes = np.linalg.eigh(X.T @ X)
        seen, unseen = axes[:, spread > 1e-12 * spread[-1]], axes[:, spread <= 1e-12 * spread[-1]]
        plus, out = seen / spread[unseen.shape[1] :] @ seen.T, unseen @ unseen.T
        theta, Y = theta0 + plus @ X.T @ (r - X @ theta0), self.X[leader] - self.X
        q, s2, missed = (((Y @ M) * Y).sum(axis=1) for M in (plus, C, out @ inverse0 @ out))
        bet = (self.same != self.same[leader]) & (self.L < self.price) & (q > 0) & (s2 > 0) & (missed <= 1e-12 * q)
        Y, sd, goal = Y[bet], np.sqrt(variance * q[bet]), np.sqrt(2 * (self.price - self.L[bet]))
        off, mu = bias * math.sqrt(len(r) / variance), Y @ C @ A0 @ theta0 / variance / sd  # in standard deviations
        if known:  # of z; nothing is staked where the past believes in no more than rounding may feign
            bet[bet], (Y, sd, goal, mu) = mu > off, (one[mu > off] for one in (Y, sd, goal, mu))
        mu, w = np.clip(mu - off, 0, goal), np.maximum(Y @ theta / sd - off, -1e150)
        tau = np.minimum(np.sqrt(s2[bet] / sd**2 + (0 if self.sigma else mu**2 / (2 * spare))), goal)
        a = STAKES * np.minimum(mu / tau, 1e9)
        mills = 1 / (math.sqrt(math.pi / 2) * (1 + a**2 / 2 + a**4 / 8) + a + a**3 / 3)  # phi(a)/Phi(a), nearly
        D = tau * np.maximum(a + mills + SIGNS * np.sqrt(1 - mills * (mills + a)), 0).reshape(6, len(mu))
        if not self.sigma:  # log of the mean of exp(x s), s the length of nu + 1 standard normal numbers
            D, nu, R = np.minimum(D, 12), len(r) - seen.shape[1], ((r - X @ theta) ** 2).sum()
            R = max(R, len(r) * (1e-12 * np.abs(X @ theta0).max()) ** 2)
            R = np.where(w > 0, np.maximum(R, nu * step**2 / 12), R) / variance
            s = (end := math.sqrt(nu + 36) + 16) - min(end, 32) * (1 + NODES) / 2  # 10 beyond the integrands' modes
            chi, x = nu * np.log(s) - s**2 / 2 + np.log(WEIGHTS), D * w / np.sqrt(np.maximum(w**2 + R, 1e-300))
            logs = np.logaddexp.reduce(chi + s * x) - np.logaddexp.reduce(chi)
        self.L[bet] += np.logaddexp.reduce((D * w if self.sigma else logs) - D**2 / 2 + np.log(SHARES))
        return leader

    def agree(self, where, claims, found):
        for key, value in found.items():
            is_near = isinstance(value, float) and math.isclose(claims[key], value, rel_tol=1e-6)
            need(is_near or claims[key] == value, f"{where}: {key} is {claims[key]!r}, recomputed {value!r}")

    def take(self, event):
        n, kind, ask, best = event["n"], event["kind"], event.get("ask"), self.found["best"] if self.era else []
        is_due = self.said == best or kind in ("stopped", "resumed", "asked", "failed", "expired")
        need(is_due and (n == 1) == (kind == "created"), f"event {n} is not due: best {best}, by the log {self.said}")
        if kind in ("created", "reopened"):
            self.begin(event)
        elif kind in ("planned", "audited"):
            plan = {(self.era, event["first"] + i): arm for i, arm in enumerate(event["arms"])}
            for p in {p for p in self.plan if kind == "audited" and best and p >= min(plan)} - {*self.asks.values()}:
                self.piles[-2][p], _ = {"void": True}, self.plan.pop(p)  # given up by an audit: no bets on the block
            need(self.plan.keys().isdisjoint(plan) and event.get("parts", 1) == 1, f"event {n}: used numbers, or parts")
            self.piles, self.plan = [*self.piles, dict.fromkeys(plan), {}], self.plan | plan
            self.advance()
        elif kind == "asked":
            for own, (number, arm) in enumerate(event["asks"], ask):
                place = self.era, number
                is_new = own not in self.asks and place not in self.live and place not in self.told
                need(is_new and self.plan.setdefault(place, arm) == arm, f"event {n}: asked twice, or not as planned")
                self.asks[own], self.live[place] = place, own
        elif kind in ("failed", "expired"):
            for own in [ask] if kind == "failed" else event["asks"]:
                need(self.live.pop(self.asks[own], None) == own, f"event {n}: ask {own} was not open")
        elif kind == "told":
            m, place = {**event, "void": False, "fixed": False}, self.asks.get(ask)
            self.measured.append(m)
            is_right = m["arm"] in range(len(self.X)) and (ask is None or self.plan.get(place) == m["arm"])
            need(is_right and m["measurement"] == len(self.measured), f"event {n}: its arm or number")
            pile = next((pile for pile in self.piles if pile.get(place, n) is None), self.piles[-1])
            self.told[place] = pile[place if place in pile else n] = m
            self.advance()
        elif kind in ("voided", "corrected", "restored"):
            m = self.measured[event["measurement"] - 1]
            need(event["measurement"] > 0 and m["void"] == (kind == "restored"), f"event {n}: is void, or is not")
            m |= {"void": kind == "voided"} | ({"value": event["value"], "fixed": True} if kind == "corrected" else {})
            self.advance(again=True)
        elif kind not in ("copied", "anchored"):
            need(kind in ("stopped", "resumed"), f"event {n} is of an unknown kind, {kind!r}", 2)
            found = {**self.found, "pulls": len(self.pulls(self.piles)[1])} if kind == "stopped" else {}
            self.agree(f"event {n}", event, found)
            self.said = found.get("best", [])


def main(certificate_file, log_file):
    csv.field_size_limit(2**31 - 1)
    with open(certificate_file, encoding="utf-8") as one, open(log_file, encoding="utf-8", newline="") as two:
        table = json.load(two)["log"] if log_file.endswith(".json") else csv.DictReader(two, strict=True)
        certificate, rows = json.load(one), [(str(row["n"]), row["hash"], row["event"]) for row in table]
    study, last, log = Study(), "0" * 64, rows[: certificate["log"]["events"]]  # of later events it says nothing
    said = {key: value for key, value in certificate.items() if key not in ("digest", "signature")}
    found = {"digest": sha256(canonical(said).encode()).hexdigest(), "log": {"events": len(log), "hash": log[-1][1]}}
    study.agree("certificate", certificate, found)
    for n, (number, given, text) in enumerate(rows, 1):
        event, last = json.loads(text), sha256(f"{last}\n{text}".encode()).hexdigest()
        need((number, given, text, event["n"]) == (str(n), last, canonical(event), n), f"event {n} and its hash")
        (study.take if n <= len(log) else str)(event)
    need(study.said == study.found["best"], f"at the end the verdict is {study.found}, by the log {study.said}")
    kept = [m["arm"] for m in study.measured if not m["void"] and m["arm"] not in study.gone]
    names, counts = study.names or [str(arm) for arm in range(len(study.X))], np.unique(kept, return_counts=True)
    found |= {"name": json.loads(rows[0][2])["name"], "options": study.options, "delta": study.options["delta"]}
    found |= {"n_pulls": len(kept), "counts": {names[arm]: n for arm, n in zip(*counts, strict=True)}, **study.found}
    found |= {"stopped": bool(study.said), "best_names": [names[arm] for arm in study.said], "era": study.era}
    found["arms_digest"] = sha256(np.delete(study.rows, sorted(study.gone), axis=0).tobytes()).hexdigest()
    found["voids"], found["all_eras_delta"] = [m["measurement"] for m in study.measured if m["void"]], study.risk
    found["corrections"] = [m["measurement"] for m in study.measured if m["fixed"] and not m["void"]]
    found["registrations"] = [h for _, h, text in log if json.loads(text)["kind"] in ("created", "reopened")]
    newer = {"registrations": found["registrations"], "all_eras_delta": study.risk}  # the first format has neither
    study.agree("certificate", newer | certificate, found)
    print(f"The log is whole, and the one certified: {len(log)} events. Found: {found['best_names']} {study.found}")
    need(not (rest := sorted(certificate.keys() - found.keys())), f"{', '.join(rest)}; all else agrees", 3)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:  # noqa: BLE001 (whatever a forged file makes go wrong)
        need(False, f"as python standalone.py certificate.json log.csv: {repr(error)[:200]}", 2)
