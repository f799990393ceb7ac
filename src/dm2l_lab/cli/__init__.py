"""The commands ``dm2l experiment``."""

from dm2l_lab.cli._experiment import experiment
from dm2l_lab.cli._report import report_results

__all__ = ["experiment"]

experiment.add_command(report_results)
