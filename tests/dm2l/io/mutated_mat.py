"""Run as a script: mutants of MATLAB files through ``read_mat``, whose process is a fork here.

Starting Python anew takes a third of a second each time; a fork of a process without threads takes
milliseconds and dies as well. Prints what became of the mutants as JSON.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.io import savemat

from dm2l._utils.files import DataFileError
from dm2l.io import _mat_child, _matrix_files, read_mat
from mutants import mutants


class Fork:
    """As much of ``subprocess.Popen`` as reading a MATLAB file takes."""

    def __init__(self, command, stderr, **_):
        self.returncode = None
        receive, send = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(send, 1)
            os.dup2(stderr.fileno(), 2)
            code = 1
            try:
                sys.stdout = io.TextIOWrapper(io.FileIO(1, "wb"))
                _mat_child.run(command[3:])
                code = 0
            except BaseException as error:  # nothing may go on from here in the fork
                os.write(2, str(error).encode(errors="replace"))
            os._exit(code)
        os.close(send)
        self.stdout = os.fdopen(receive, "rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stdout.close()
        self.wait()

    def wait(self):
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def kill(self):
        if self.returncode is None:
            os.kill(self.pid, 9)


def seeds():
    """Small files of every version and form."""
    X, Y = np.arange(12.0).reshape(6, 2), np.eye(6, 3)
    for options in ({"format": "4"}, {}, {"do_compression": True}):
        for features in (X, sp.csc_matrix(X)):
            file = io.BytesIO()
            savemat(file, {"X": features, "Y": Y}, **options)
            yield file.getvalue()


def main(count):
    """So many mutants of each seed."""
    _matrix_files.subprocess.Popen = Fork
    found = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "set.mat")
        for content in seeds():
            path.write_bytes(content)
            read_mat(path)
            found["sound"] += 1
            for mutant in mutants(content, count):
                path.write_bytes(mutant)
                try:
                    read_mat(path)
                    found["read"] += 1
                except DataFileError as error:
                    found["killed" if "ended with:" in str(error) else "refused"] += 1
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
