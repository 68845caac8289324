"""Shapes that slices of torus machines come in.

Small slices are those the system's file lists. Where the machine is built of 4 x 4 x 4 cubes
(three dimensions), every box of whole cubes that fits the pod exists as well.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement

from chipwise.catalogue.hardware import System

CUBE = 4
"""Chips along each side of the cube that optical switches join."""

Shape = tuple[int, ...]


def slice_shape(system: System, chips: int, wanted: Shape | None = None) -> Shape:
    """The shape of a slice with so many chips.

    Args:
        system: a torus machine.
        chips: chips in the slice.
        wanted: only this shape, its sides in rising order.

    Returns:
        The most cube-like shape there is (it has the widest bisection), or () if there is none.
    """
    shapes = _shapes(system).get(chips, ())
    if wanted is not None:
        return next((shape for shape in shapes if tuple(sorted(shape)) == wanted), ())
    return min(shapes, key=max, default=())


def slice_sizes(system: System) -> list[int]:
    """All slice sizes of a torus machine, in chips, rising."""
    return sorted(_shapes(system))


def near_cube(chips: int, dimensions: int) -> Shape:
    """The box of ``chips`` chips whose sides differ least, its sides in rising order."""
    if dimensions == 1:
        return (chips,)
    best: Shape = (1,) * (dimensions - 1) + (chips,)
    for side in range(1, round(chips ** (1 / dimensions)) + 1):
        if chips % side == 0:
            rest = near_cube(chips // side, dimensions - 1)
            best = min(best, tuple(sorted((side, *rest))), key=max)
    return best


@cache
def _shapes(system: System) -> dict[int, tuple[Shape, ...]]:
    largest = system.max_slice or system.devices
    found: dict[int, tuple[Shape, ...]] = {}
    for shape in (*system.shapes, *_cubes(system)):
        chips = 1
        for side in shape:
            chips *= side
        if chips <= largest:
            found[chips] = (*found.get(chips, ()), shape)
    return found


def _cubes(system: System) -> list[Shape]:
    if system.topology != "torus3d" or not system.pod:
        return []
    limits = sorted(system.pod)
    sides = range(CUBE, limits[-1] + 1, CUBE)
    return [
        box
        for box in combinations_with_replacement(sides, 3)
        if all(side <= limit for side, limit in zip(box, limits, strict=True))
    ]
