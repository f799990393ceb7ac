"""Run the commands of ``tests/recorded_commands.py`` and store what they print.

From the root of the repository::

    PYTHONPATH=src:tests python tests/dm2l/cli/record.py [--numbers] [JOURNEY ...]

Without ``--numbers`` only words are stored: what commands print. With it, also the numbers in what
they print and write, where a change of them is meant.
"""

import sys

from recorded_commands import record

if __name__ == "__main__":
    arguments = sys.argv[1:]
    record([name for name in arguments if name != "--numbers"], numbers="--numbers" in arguments)
