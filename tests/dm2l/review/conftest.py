"""What holds for all tests of reviews."""

import os

import pytest


@pytest.fixture(scope="module", autouse=True)
def unsynced():
    """Do not wait for the disk, after each answer; tests of this replace the function again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield
