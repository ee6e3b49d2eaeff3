"""Drivers in pods with a quarter of the lease, and more sweeps: tests need not wait two minutes for a node that is gone."""

from __future__ import annotations

from watcher.features.kubernetes.manifest import LeaseTimes
from watcher.features.kubernetes.submitter import KubernetesPods


class ShortLeases(KubernetesPods):
    lease = LeaseTimes(renew_every=2.5, ends_after=15, silent_for=30)
    sweep_every = 15
