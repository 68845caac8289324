"""The measurement behind 0001: one graph of 150 quantities on Apache Hamilton and on quantity.py.

    python -m venv other && other/bin/pip install apache-hamilton
    PYTHONPATH=src other/bin/python docs/decisions/compare_engines.py

Both engines get the same function objects from one generated module, so that only the engine
differs. Prints one line per number; times are medians of nine rounds.
"""

from __future__ import annotations

import inspect
import linecache
import random
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from chipwise.quantity import Model, Quantity

QUANTITIES, INPUTS, ROWS = 150, 40, 16_384
BODIES = (
    "({0} + {1}) / 2 * {2}",
    "np.sqrt({0} * {1}) / {2}",
    "np.where({0} > {1}, {0}, {1} * {2})",
    "np.maximum({0}, {1}) + {2}",
)
ENGINES = {"hamilton": "from hamilton import driver", "chipwise": "import chipwise.quantity"}


def synthetic_module(seed: int = 1) -> ModuleType:
    """A module of typed functions, each needing one input and two recent quantities."""
    draw = random.Random(seed)
    names = [f"input_{i}" for i in range(INPUTS)]
    source = "import numpy as np\nfrom typing import Any\n"
    for i in range(QUANTITIES):
        needs = [*draw.sample(names[-12:], 2), f"input_{draw.randrange(INPUTS)}"]
        body = draw.choice(BODIES).format(*needs)
        arguments = ", ".join(f"{need}: Any" for need in dict.fromkeys(needs))
        source += f"def quantity_{i}({arguments}) -> Any:\n    return {body}\n"
        names.append(f"quantity_{i}")
    module = ModuleType("synthetic")
    linecache.cache["synthetic.py"] = (len(source), None, source.splitlines(True), "synthetic.py")
    exec(compile(source, "synthetic.py", "exec"), vars(module))
    sys.modules["synthetic"] = module
    return module


def milliseconds(call: Callable[[], object], repeat: int) -> float:
    """Median time of one call."""
    rounds = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(repeat):
            call()
        rounds.append((time.perf_counter() - start) / repeat * 1e3)
    return statistics.median(rounds)


def import_milliseconds(statement: str) -> float:
    """Median time to import in a fresh process, over NumPy, which both need."""
    code = f"import time, numpy; t = time.perf_counter(); {statement}; print(time.perf_counter()-t)"
    command = [sys.executable, "-c", code]
    times = [float(subprocess.check_output(command, text=True)) for _ in range(9)]
    return statistics.median(times) * 1e3


def peak_mebibytes(call: Callable[[], object]) -> float:
    """Most memory allocated at once during a call."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def bare_loop(order: tuple[Quantity, ...], columns: Mapping[str, Any]) -> None:
    """The calls alone, everything kept: what no engine can beat by ordering alone."""
    values = dict(columns)
    for step in order:
        values[step.name] = step.function(*[values[need] for need in step.needs])


def main() -> None:
    """Run every measurement and print it."""
    from hamilton import driver  # type: ignore[import-not-found]

    module = synthetic_module()
    made = {name: made for name, made in vars(module).items() if name.startswith("quantity_")}
    model = Model(
        {
            n: Quantity(n, "1", tuple(inspect.signature(f).parameters), f, "")
            for n, f in made.items()
        }
    )
    needed = {need for step in model.values() for need in step.needs}
    wanted = [name for name in made if name not in needed]
    hamilton = driver.Builder().with_modules(module).build()

    def columns(rows: int) -> dict[str, Any]:
        draw = np.random.default_rng(0)
        return {f"input_{i}": draw.uniform(1.0, 2.0, rows) for i in range(INPUTS)}

    scalar = {name: float(value[0]) for name, value in columns(1).items()}
    chunk = columns(ROWS)

    order = model.order(wanted, chunk)
    print(f"quantities evaluated          {len(order)}")
    for name, statement in ENGINES.items():
        print(f"import {name:10}            {import_milliseconds(statement):8.1f} ms over NumPy")
    ours, theirs = model.evaluate(chunk, wanted), hamilton.execute(wanted, inputs=chunk)
    assert all(np.array_equal(ours[name], theirs[name]) for name in wanted)
    build = {
        "hamilton": lambda: driver.Builder().with_modules(module).build(),
        "chipwise": lambda: Model(model.quantities).order(wanted, chunk),
    }
    for engine, call in build.items():
        print(f"build the graph {engine:14}{milliseconds(call, 3):8.2f} ms")
    for label, values, repeat in (("scalars", scalar, 30), ("16k rows", chunk, 5)):
        calls: dict[str, Callable[[], object]] = {
            "hamilton": partial(hamilton.execute, wanted, inputs=values),
            "chipwise": partial(model.evaluate, values, wanted),
            "bare loop": partial(bare_loop, order, values),
        }
        for engine, call in calls.items():
            print(f"evaluate {label:9}{engine:12}{milliseconds(call, repeat):8.3f} ms")
    for engine, call in (
        ("hamilton", lambda: hamilton.execute(wanted, inputs=chunk)),
        ("chipwise", lambda: model.evaluate(chunk, wanted)),
        ("chipwise keep_all", lambda: model.evaluate(chunk, wanted, keep_all=True)),
    ):
        print(f"peak of 16k rows {engine:20}{peak_mebibytes(call):8.2f} MiB")


if __name__ == "__main__":
    main()
