"""Commands as tests run them."""

import inspect

from click.testing import CliRunner


def command_runner():
    """Keeps standard output and standard error apart, in every version of click."""
    old = "mix_stderr" in inspect.signature(CliRunner).parameters
    return CliRunner(mix_stderr=False) if old else CliRunner()
