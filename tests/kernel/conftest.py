"""No example fails for being slow on a busy machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("no_clock", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no_clock")
