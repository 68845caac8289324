"""What a job is paid and powered by, as columns."""

from __future__ import annotations

from math import nan

from chipwise.catalogue.energy import HOST, IDLE, LOAD, pue, share
from chipwise.catalogue.prices import rental
from chipwise.columns.model import Scalars
from chipwise.spec.job import TrainingJob

_HOUR = 3600.0


def cost_columns(job: TrainingJob) -> Scalars:
    """Rent and power of a job's machine; what nobody publishes is not a number.

    Args:
        job: its cluster, its terms and its power cap.
    """
    cluster, terms = job.cluster, job.terms
    rented = rental(cluster, terms.market, terms.as_of)
    devices = rented.offer.devices * rented.count if rented else cluster.num_devices
    tdp = cluster.accelerator.tdp_watts
    apart = job.workload.objective.devices_apart
    return {
        "paid_devices": float(devices + apart),
        "device_rent": rented.usd_per_hour / devices / _HOUR if rented else nan,
        "board_power": min(job.power_cap_watts or tdp, tdp) if tdp else job.power_cap_watts or nan,
        "load_power_share": share(LOAD).likely,
        "idle_power_share": share(IDLE).likely,
        "host_power_share": share(HOST).likely,
        "pue": terms.pue or pue(rented.offer.provider if rented else "").likely,
    }
