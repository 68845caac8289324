"""The model of a job: every quantity, as pure array functions.

``MODEL`` is the full graph. ``quantity.Model.evaluate`` runs it on columns built elsewhere.
"""

from __future__ import annotations

from chipwise.physics import (
    activations,
    batch,
    collectives,
    cost,
    data,
    experience,
    layer,
    memory,
    objectives,
    operations,
    paging,
    parameters,
    products,
    run,
    states,
    training,
)
from chipwise.quantity import Model

MODEL = Model.of(
    *(parameters, states, activations, memory, paging, operations, products, layer, collectives),
    *(training, run, batch, cost, objectives, experience, data),
)
