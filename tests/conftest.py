"""What holds for every test: drawing examples may be slow, because all cores are busy with other tests."""

from hypothesis import HealthCheck, settings

settings.register_profile("paddock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("paddock")
