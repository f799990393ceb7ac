"""What holds for all tests."""

from hypothesis import settings

# No test has a deadline: the machine may be busy with other tests.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
