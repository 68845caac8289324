"""Named quantities as plain array functions whose signatures form the graph.

A quantity is a function. Its name is the quantity's name, its parameters are the names of the
quantities it needs. ``Model`` collects quantities, works out an order, evaluates them on columns
of NumPy arrays (or plain floats) and explains any value by the very calculation that made it.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from types import ModuleType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from chipwise.errors import UnknownNameError, UsageError, nearest_names
from chipwise.explanation import Explanation
from chipwise.i18n import _

Array = float | NDArray[np.float64]
Columns = Mapping[str, Array]
F = TypeVar("F", bound=Callable[..., Array])


@dataclass(frozen=True)
class Quantity:
    """One named quantity: the function, what it needs, its unit and where it comes from."""

    name: str
    unit: str
    needs: tuple[str, ...]
    function: Callable[..., Array]
    source: str
    assumes: str = ""
    parts: bool = False

    @cached_property
    def formula(self) -> str:
        """The equation, read from the function's own body (assignments, then the result)."""
        tree = ast.parse(textwrap.dedent(inspect.getsource(self.function))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        lines = [ast.unparse(statement) for statement in tree.body if not _is_docstring(statement)]
        return "; ".join(lines).removeprefix("return ").replace("; return ", "; ")

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


@dataclass(frozen=True)
class Given:
    """What is known of an input column: unit, meaning, and where its value came from."""

    unit: str
    meaning: str = ""
    source: str = ""
    basis: str = "assumed"


def quantity(*, unit: str, source: str, assumes: str = "", parts: bool = False) -> Callable[[F], F]:
    """Mark a function as a quantity; calling it directly still works as before.

    Args:
        unit: SI unit of the result, such as ``B``, ``s``, ``FLOP/s``, ``1``.
        source: key into the source list, or ``arithmetic`` for exact definitions.
        assumes: what is taken for granted, in words.
        parts: the result is the plain sum of its parameters, so that breakdowns add up.
    """

    def mark(function: F) -> F:
        needs = tuple(inspect.signature(function).parameters)
        marked = Quantity(function.__name__, unit, needs, function, source, assumes, parts)
        function.__quantity__ = marked  # type: ignore[attr-defined]
        return function

    return mark


@dataclass(frozen=True)
class _Plan:
    """What an evaluation does, in order."""

    steps: tuple[Quantity, ...]
    inputs: tuple[str, ...]
    """Columns that are needed, or asked for themselves."""
    over: tuple[tuple[str, ...], ...]
    """Intermediates that nothing needs after a step, for each step."""

    @classmethod
    def of(cls, steps: tuple[Quantity, ...], given: frozenset[str], wanted: Iterable[str]) -> _Plan:
        """The plan of some steps in order."""
        needed = [need for step in steps for need in step.needs]
        inputs = tuple(dict.fromkeys(name for name in (*needed, *wanted) if name in given))
        kept = {*wanted, *given}
        last = {need: step.name for step in steps for need in step.needs if need not in kept}
        over = (
            tuple(dict.fromkeys(need for need in step.needs if last.get(need) == step.name))
            for step in steps
        )
        return cls(steps, inputs, tuple(over))


@dataclass(frozen=True)
class Model(Mapping[str, Quantity]):
    """A set of quantities, evaluated in dependency order on columns."""

    quantities: Mapping[str, Quantity]
    _plans: dict[tuple[frozenset[str], tuple[str, ...]], tuple[Quantity, ...]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _orders: dict[tuple[frozenset[str], tuple[str, ...]], _Plan] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def of(cls, *modules: ModuleType) -> Model:
        """All quantities defined in the given modules; a name that stands twice is refused."""
        found: dict[str, Quantity] = {}
        for module in modules:
            for value in vars(module).values():
                marked = getattr(value, "__quantity__", None)
                if not isinstance(marked, Quantity) or value.__module__ != module.__name__:
                    continue
                if found.get(marked.name, marked) is not marked:
                    raise ValueError(f"quantity {marked.name} is defined twice")
                found[marked.name] = marked
        return cls(found)

    def __getitem__(self, name: str) -> Quantity:
        return self.quantities[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.quantities)

    def __len__(self) -> int:
        return len(self.quantities)

    def __or__(self, other: Mapping[str, Quantity | Callable[..., Array]]) -> Model:
        """This model with some quantities replaced or added, each named by its key: a variant."""
        variant = dict(self.quantities)
        for name, made in other.items():
            marked = made if isinstance(made, Quantity) else vars(made)["__quantity__"]
            variant[name] = replace(marked, name=name)
        return Model(variant)

    def order(self, targets: Iterable[str], given: Iterable[str]) -> tuple[Quantity, ...]:
        """The quantities needed for the targets, each after all it needs.

        Args:
            targets: names wanted.
            given: names whose values are supplied and therefore not computed.

        Raises:
            UnknownNameError: a target is no quantity.
            UsageError: an input is missing, or quantities need each other in a circle.
        """
        key = (frozenset(given), tuple(targets))
        if key not in self._plans:
            self._plans[key] = self._resolve(key[1], key[0])
        return self._plans[key]

    def _resolve(self, targets: tuple[str, ...], given: frozenset[str]) -> tuple[Quantity, ...]:
        done: dict[str, Quantity] = {}
        path: list[str] = []

        def visit(name: str) -> None:
            if name in given or name in done:
                return
            if name in path:
                loop = " → ".join([*path[path.index(name) :], name])
                text = _("quantities need each other in a circle: {loop}").format(loop=loop)
                raise UsageError("circular-quantity", text, loop=loop)
            if name not in self.quantities:
                raise self._missing(name, path, given)
            path.append(name)
            for need in self.quantities[name].needs:
                visit(need)
            path.pop()
            done[name] = self.quantities[name]

        for target in targets:
            visit(target)
        return tuple(done.values())

    def _missing(self, name: str, path: list[str], given: frozenset[str]) -> UsageError:
        if not path:
            return UnknownNameError("quantity", name, self, "chipwise explain --list")
        near = nearest_names(name, sorted({*self, *given}), 1)
        text = _("input '{name}' is missing: {path} needs it; give it a value{hint}").format(
            name=name,
            path=" → ".join(path),
            hint=_(", or did you mean '{near}'?").format(near=near[0]) if near else "",
        )
        return UsageError("missing-input", text, name=name, path=tuple(path))

    def evaluate(
        self, columns: Columns, targets: Iterable[str] | None = None, *, keep_all: bool = False
    ) -> dict[str, Array]:
        """Compute the targets from columns, in double precision throughout.

        Args:
            columns: input arrays by name, broadcastable against each other. A column named like
                a quantity replaces it: a measured value wins over a computed one.
            targets: names wanted; all quantities when None.
            keep_all: also return every intermediate (for explanations); otherwise intermediates
                are dropped as soon as nothing else needs them, and their memory is used again.

        Returns:
            Values by name, in the shapes that broadcasting gives.
        """
        wanted = tuple(self.quantities if targets is None else targets)
        plan = self._plan(wanted, columns)
        values = {name: _double(columns[name]) for name in plan.inputs}
        for step, over in zip(plan.steps, plan.over, strict=True):
            values[step.name] = step.function(*[values[need] for need in step.needs])
            for need in () if keep_all else over:
                del values[need]
        if keep_all:
            wanted = (*(step.name for step in plan.steps), *wanted)
        return {name: values[name] for name in wanted}

    def _plan(self, wanted: tuple[str, ...], given: Iterable[str]) -> _Plan:
        key = (frozenset(given), wanted)
        if key not in self._orders:
            self._orders[key] = _Plan.of(self.order(wanted, key[0]), key[0], wanted)
        return self._orders[key]

    def explain(
        self, name: str, values: Columns, inputs: Mapping[str, Given], depth: int = 99
    ) -> Explanation:
        """The tree of quantities behind one value, from the values that were computed.

        A value that its function does not make of its needs was given, and is shown as such.
        Subtrees that occur several times are one shared object.

        Args:
            name: the quantity to explain.
            values: every value by name, inputs and intermediates; the first element is explained.
            inputs: what is known of the input columns.
            depth: how many levels to unfold.
        """

        @cache
        def unfold(name: str, depth: int) -> Explanation:
            value, step = _first(values[name]), self.quantities.get(name)
            if name in inputs or step is None or not _follows(step, values):
                given = inputs.get(name) or Given(step.unit if step else "1")
                known = (given.unit, "", given.source, given.basis, given.meaning)
                return Explanation(name, value, *known)
            needs = tuple(unfold(need, depth - 1) for need in step.needs) if depth > 0 else ()
            shown = (step.unit, step.formula, step.source, "computed", step.summary)
            return Explanation(name, value, *shown, needs)

        return unfold(name, depth)


def _double(value: Array) -> Array:
    """In double precision, so that scalars and arrays obey one arithmetic.

    Python floats raise on division by zero, and integer arrays wrap around near 1e19.
    """
    return np.asarray(value, np.float64) if isinstance(value, np.ndarray) else np.float64(value)


def _first(value: Array) -> float:
    return float(np.asarray(value).reshape(-1)[0])


def _follows(step: Quantity, values: Columns) -> bool:
    """Whether the value is what its function makes of its needs."""
    if not all(need in values for need in step.needs):
        return False
    again = step.function(*[_double(values[need]) for need in step.needs])
    return bool(np.isclose(_first(again), _first(values[step.name]), 1e-9, 0, equal_nan=True))
