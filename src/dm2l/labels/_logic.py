"""Propagate known labels through rules between label columns, and find violated rules."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from itertools import chain, combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dm2l.labels._coherence import Coherence, Group
from dm2l.labels._entries import Floats, Signs

HEADS = {"not both": "exclusions", "at most one": "at_most_one", "exactly one": "exactly_one"}
FIELDS = ("implications", *HEADS.values())
_PLAIN = re.compile(rf"(?!({'|'.join(HEADS)})\s*:)(?!\s)(?:(?!=>)[^\",#\r\n])+(?<!\s)")
_BLOCK = 2**20  # maximum size of an intermediate array in numbers
_SHOWN = 9  # maximum number of rules in a message
_BARELY = 1e-6  # distance from one half of a probability that a decision overrides
_DENSE = 0.05  # share of nonzero entries above which the closure is multiplied as a dense matrix
_MOST_LABELS = 2**13
_MOST_PAIRS = 2**20  # pairs of labels in groups, which limits time and memory for the closure


class RuleText(NamedTuple):
    """A rule as text: its kind, the names of its labels, and its place in a file."""

    field: str
    names: tuple[str, ...]
    place: str = ""

    def __str__(self) -> str:
        quoted = [
            name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'
            for name in self.names
        ]
        heads = {field: f"{head}: " for head, field in HEADS.items()}
        return heads.get(self.field, "") + (", " if self.field in heads else " => ").join(quoted)

    def check(self) -> None:
        """Raise an error if the rule has a wrong number of labels or an invalid name."""
        pair, count = self.field in ("implications", "exclusions"), len(self.names)
        if len(set(self.names)) < count or count < 2 or (pair and count > 2):
            hint = " For more, use 'at most one'." * (self.field == "exclusions" and count > 2)
            number = "two" if pair else "at least two"
            raise ValueError(f"the rule {str(self)!r} needs {number} different labels.{hint}")
        if any(not name or len(name.splitlines()) != 1 for name in self.names):
            raise ValueError(f"the rule {str(self)!r} has an empty or multi-line label name.")

    @property
    def placed(self) -> str:
        """The rule in quotes, followed by its place in a file."""
        return f"'{self}'" + (f" ({self.place})" if self.place else "")


class Propagation(NamedTuple):
    """Signs in which rules have filled in missing entries, and a mask of contradictory rows."""

    signs: Signs
    contradictory: NDArray[np.bool_]


class RuleLogic:
    """Rules for label columns in a fixed order, as a graph of literals."""

    # ``columns`` are the m label columns that occur in rules. Literal k means that label k of them
    # is positive, and literal k + m that it is negative. Row k of ``closure`` marks the literals
    # that literal k implies, and itself. Rows of ``groups`` mark members of exactly-one groups.

    def __init__(self, rules: Sequence[RuleText], label_names: Sequence[str]) -> None:
        place = {name: k for k, name in enumerate(label_names)}
        if len(place) < len(label_names):
            double = next(name for k, name in enumerate(label_names) if place[name] != k)
            raise ValueError(f"Two labels are called {double!r}. Rules need distinct label names.")
        for rule in rules:
            for name in [name for name in rule.names if name not in place]:
                near = get_close_matches(name, label_names, 1)
                few = ", ".join(map(repr, label_names[:5])) + ", ..." * (len(label_names) > 5)
                hint = f"Did you mean {near[0]!r}?" if near else f"Labels: {few}."
                raise ValueError(f"The rule {rule.placed} has an unknown label {name!r}. {hint}")
        used = sorted({place[name] for rule in rules for name in rule.names})
        at = {label_names[column]: k for k, column in enumerate(used)}
        self.columns = np.array(used, dtype=np.intp)
        self.names = [label_names[column] for column in used]
        self.rules = [(rule, [at[name] for name in rule.names]) for rule in rules]
        m = len(used)
        _limit("labels in rules", m, _MOST_LABELS)
        _limit("pairs of labels in groups", sum(len(at) ** 2 for _, at in self.rules), _MOST_PAIRS)
        self._refuse_cycles()
        parts = chain.from_iterable(_impossible(rule, at, m) for rule, at in self.rules)
        pairs = np.array([part for part in parts if len(part) == 2], dtype=np.intp).reshape(-1, 2)
        ends = (pairs[:, ::-1] + m) % (2 * m)  # each literal implies the opposite of the other
        self.closure = _closed(pairs.ravel(), ends.ravel(), 2 * m)
        kinds = [(rule.field, np.array(at)) for rule, at in self.rules]
        groups = [Group(at, kind == "exactly_one") for kind, at in kinds if kind != "implications"]
        edges = np.array([at for kind, at in kinds if kind == "implications"], dtype=np.intp)
        edges = edges.reshape(-1, 2)
        self.coherence = Coherence(m, edges, groups, _closed(edges[:, 0], edges[:, 1], m))
        self.groups = self.coherence.A[self.coherence.low == 1].astype(np.float32)
        self._always = np.zeros(m, dtype=bool)
        self._probe()
        # Unit propagation finds every contradiction between rules about two labels.
        wide = [rule for rule, at in self.rules if rule.field == "exactly_one" and len(at) > 2]
        if wide and self.coherence.best(np.zeros(m), np.zeros(m, dtype=np.int8)) is None:
            raise ValueError(f"No row can obey all rules. Remove or edit {_listed(wide, 'or')}.")

    def _refuse_cycles(self) -> None:
        rules = {tuple(at): rule for rule, at in self.rules if rule.field == "implications"}
        graph: TopologicalSorter[int] = TopologicalSorter()
        for child, parent in rules:
            graph.add(child, parent)
        try:
            graph.prepare()
        except CycleError as error:
            cycle = error.args[1][::-1]  # edges point from a child to its parents
            steps = [rules[pair] for pair in pairwise(cycle)]
            raise ValueError(
                f"Implications form a cycle: {_listed(steps)}. The rules make these labels equal. "
                "Remove one of the labels or one of the rules."
            ) from error

    def _probe(self) -> None:
        """Raise an error if a label can never be positive; find labels that are always positive."""
        m = len(self.columns)
        for start in range(0, m, step := max(1, _BLOCK // (2 * m + 1))):
            rows = np.arange(start, min(start + step, m))
            one = (rows[:, None] == np.arange(m)).astype(np.int8)
            never = np.flatnonzero(self._propagate(one)[1])
            if len(never):
                raise ValueError(
                    f"{self.names[rows[never[0]]]!r} can never be positive, as this contradicts "
                    f"{self._explain(one[never[0]])[1]}. Remove or correct one of these rules."
                )
            self._always[rows] = self._propagate(-one)[1]

    def propagate(self, T: Signs) -> Propagation:
        """Fill in labels by unit propagation, except in rows that contradict the rules."""
        found, against = T.copy(), np.zeros(len(T), dtype=bool)
        for start in range(0, len(T), step := max(1, _BLOCK // (2 * len(self.columns) + 1))):
            rows = slice(start, start + step)
            found[rows, self.columns], against[rows] = self._propagate(T[rows, self.columns])
        return Propagation(found, against)

    def _propagate(self, T: Signs) -> tuple[Signs, NDArray[np.bool_]]:
        """Return the propagated signs of columns in rules, and a mask of contradictory rows."""
        m, sizes = T.shape[1], self.groups.sum(axis=1)
        known = np.hstack([(T > 0) | self._always, T < 0])
        while True:
            known = known.astype(np.float32) @ self.closure > 0
            absent = known[:, m:]
            count = absent.astype(np.float32) @ self.groups.T
            last = ((count == sizes - 1) @ self.groups > 0) & ~absent
            if not (last & ~known[:, :m]).any():
                break
            known[:, :m] |= last
        against = (known[:, :m] & absent).any(axis=1) | (count == sizes).any(axis=1)
        signs = known[:, :m].astype(np.int8) - absent.astype(np.int8)
        return np.where(against[:, None], T, signs), against

    def redundant(self, T: Signs) -> NDArray[np.bool_]:
        """Return a mask of known entries that follow from other known entries of their row."""
        found, known = np.zeros(T.shape, dtype=bool), T[:, self.columns]
        m, sizes = known.shape[1], self.groups.sum(axis=1)
        literals = np.hstack([known > 0, known < 0]).astype(np.float32)
        implied = (literals @ self.closure - literals) > 0
        implied[:, :m] |= (literals[:, m:] @ self.groups.T == sizes - 1) @ self.groups > 0
        found[:, self.columns] = np.where(known > 0, implied[:, :m], implied[:, m:] & (known < 0))
        return found

    def project(self, P: Floats, T: Signs) -> Floats:
        """Return the nearest probabilities that obey the rules; ``T`` are propagated labels."""
        result = np.where(T == 0, P, T > 0)
        for start in range(0, len(P), step := max(1, _BLOCK // (len(self.columns) + 1))):
            rows = slice(start, start + step), self.columns
            result[rows] = self.coherence.project(P[rows], T[rows])
        return result

    def decide(self, positive: NDArray[np.bool_], P: Floats, T: Signs) -> NDArray[np.bool_]:
        """Return decisions that obey the rules; rows that already obey them are not changed."""
        known, result = T[:, self.columns], positive.copy()
        chosen = np.where(known == 0, positive[:, self.columns], known > 0)
        rows = np.flatnonzero(self.coherence.violations(chosen))
        if len(rows):
            chosen[rows] = self._decide(chosen[rows], P[rows][:, self.columns], known[rows])
        result[:, self.columns] = chosen
        return result

    def _decide(self, chosen: NDArray[np.bool_], P: Floats, known: Signs) -> NDArray[np.bool_]:
        # If a decision contradicts its probability, the probability is set next to one half.
        P = np.where(chosen == (P > 0.5), P, np.where(chosen, 0.5 + _BARELY, 0.5 - _BARELY))
        P, m = self.coherence.project(P, known), known.shape[1]
        chosen = P > 0.5
        for group in self.coherence.groups:
            rows = np.flatnonzero(group.exact & ~chosen[:, group.labels].any(axis=1))
            if len(rows):  # if no probability exceeds one half, take the most probable label
                against = chosen[rows].astype(np.float32) @ self.closure[:m, m:] > 0
                open_ = ~(against | (known[rows] < 0))[:, group.labels]
                best = np.where(open_, P[rows][:, group.labels], -1.0).argmax(axis=1)
                one = (group.labels[best][:, None] == np.arange(m)).astype(np.float32)
                chosen[rows] |= one @ self.closure[:m, :m] > 0
        for row in np.flatnonzero(self.coherence.violations(chosen)):
            best = self.coherence.best(P[row], known[row])
            chosen[row] = chosen[row] if best is None else best
        return chosen

    def conflicts(self, T: Signs) -> Iterator[tuple[int, NDArray[np.intp]]]:
        """Yield each row that contradicts the rules, with the labels of one contradiction."""
        m = len(self.columns)
        for row in np.flatnonzero(self.propagate(T).contradictory).tolist():
            yield row, self.columns[[fact % m for fact in self._explain(T[row, self.columns])[0]]]

    def explain(self, signs: Signs) -> str:
        """Return a text with the contradictory labels of a row, and the rules they contradict."""
        m, (facts, rules) = len(self.columns), self._explain(signs[self.columns])
        said = [f"{self.names[fact % m]!r} is {'yes' if fact < m else 'no'}" for fact in facts]
        return f"{' and '.join(said)}, which contradicts {rules}"

    def _explain(self, T: Signs) -> tuple[list[int], str]:
        """Return the literals of a row that cause a contradiction, and the rules involved."""
        m, facts = len(T), {*np.flatnonzero(np.hstack([T > 0, T < 0])).tolist()}
        clauses = [(rule, part) for rule, at in self.rules for part in _impossible(rule, at, m)]
        # The rule and the other literals from which each known literal follows.
        known: dict[int, tuple[RuleText | None, list[int]]] = dict.fromkeys(facts, (None, []))
        conflict: tuple[RuleText, list[int]] | None = None
        while conflict is None:
            before = len(known)
            for rule, part in clauses:
                open_ = [literal for literal in part if literal not in known]
                if not open_:
                    conflict = rule, part
                    break
                if len(open_) == 1:
                    others = [literal for literal in part if literal != open_[0]]
                    known.setdefault((open_[0] + m) % (2 * m), (rule, others))
            if conflict is None and len(known) == before:
                # The contradiction also involves labels that are always positive.
                always = set(np.flatnonzero(self._always).tolist()) - known.keys()
                if not always:
                    return sorted(facts), "the rules"
                known |= dict.fromkeys(always, (None, []))
        steps, queue = [conflict[0]], list(conflict[1])
        for literal in queue:  # the queue grows in the loop
            reason, others = known[literal]
            steps += [] if reason is None else [reason]
            queue += [other for other in others if other not in queue]
        return sorted(facts & set(queue)), _listed(list(dict.fromkeys(steps[::-1])))


def _impossible(rule: RuleText, at: list[int], m: int) -> list[list[int]]:
    """Return the sets of literals that cannot all be true under a rule about labels ``at``."""
    if rule.field == "implications":
        return [[at[0], at[1] + m]]
    pairs = [list(pair) for pair in combinations(at, 2)]
    return [*pairs, [k + m for k in at]] if rule.field == "exactly_one" else pairs


def _closed(starts: NDArray[np.intp], ends: NDArray[np.intp], size: int) -> Any:
    """Return the transitive closure of a graph as a 0/1 matrix, dense if it has many ones."""
    reach = sp.csr_array((np.ones(len(starts), np.float32), (starts, ends)), shape=(size, size))
    reach += sp.eye_array(size, dtype=np.float32, format="csr")
    stored = -1
    while reach.nnz != stored:
        stored = reach.nnz
        pairs = np.diff(reach.indptr)[reach.indices].sum(dtype=np.int64)  # an upper bound
        _limit("pairs of labels that follow from rules", min(int(pairs), size**2), 4 * _MOST_PAIRS)
        reach = reach @ reach
        reach.data[:] = 1
    return reach.toarray() if reach.nnz > _DENSE * size**2 else reach


def _limit(what: str, count: int, most: int) -> None:
    if count > most:
        raise ValueError(
            f"There are up to {count:,} {what}, more than {most:,}. Remove some rules."
        )


def _listed(rules: Sequence[RuleText], word: str = "and") -> str:
    shown, more = [rule.placed for rule in rules[:_SHOWN]], len(rules) - _SHOWN
    *most, last = [*shown, f"{more} other rules"] if more > 0 else shown
    return f"{', '.join(most)} {word} {last}" if most else last
