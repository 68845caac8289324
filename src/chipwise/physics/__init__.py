"""The model of a job: every quantity, as pure array functions.

``MODEL`` is the full graph. ``quantity.Model.evaluate`` runs it on columns built elsewhere.
"""

from __future__ import annotations

from chipwise.physics import (
    activations,
    collectives,
    cost,
    data,
    layer,
    memory,
    operations,
    parameters,
    products,
    run,
    states,
    training,
)
from chipwise.quantity import Model

MODEL = Model.of(
    *(parameters, states, activations, memory, operations, products, layer, collectives),
    *(training, run, cost, data),
)
