"""Read a MATLAB file and write its numbers to standard output, in a child process.

The arguments are the file, the memory limit in bytes, the time limit in seconds, and the names of
the wanted variables as JSON. The output is one line of JSON, followed by the bytes of the arrays.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.io import loadmat, whosmat


def limit(memory: int, seconds: int) -> None:
    """Limit the memory and time of this process if the system supports it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    pages = Path("/proc/self/statm")
    used = int(pages.read_text().split()[0]) * resource.getpagesize() if pages.exists() else 2**30
    bounds = {"RLIMIT_AS": used + memory, "RLIMIT_CPU": seconds, "RLIMIT_CORE": 0}
    for name, bound in bounds.items():
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        if hard == resource.RLIM_INFINITY or bound < hard:
            with suppress(ValueError, OSError):  # macOS rejects some limits
                resource.setrlimit(kind, (bound, hard))


def parts(value: Any) -> tuple[str, list[np.ndarray[Any, Any]]]:
    """Return the kind of a MATLAB variable, and the arrays that store its values."""
    if sp.issparse(value):
        value = value.tocsc()  # files of version 4 give COO matrices
        return "sparse", [value.data, value.indices, value.indptr, np.array(value.shape)]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim == 2:
        return "dense", [value]
    if isinstance(value, np.ndarray):
        return f"dtype {value.dtype}, {value.ndim} dimensions", []
    return type(value).__name__, []


def run(arguments: list[str]) -> None:
    """Read a file and write its variables to standard output; exit with a message on errors."""
    path, memory, seconds, names = arguments
    limit(int(memory), int(seconds))
    given, usual = json.loads(names)
    try:
        there = [name for name, _, _ in whosmat(path, appendmat=False)]
        wanted = [name for name in there if name in given or name.lower() in usual]
        read = loadmat(path, variable_names=wanted, appendmat=False) if wanted else {}
        arrays, variables = [], {}
        for name in wanted:
            what, made = parts(read[name])
            made = [np.ascontiguousarray(one, dtype=one.dtype.newbyteorder("=")) for one in made]
            variables[name] = [what, [[one.dtype.str, one.shape] for one in made]]
            arrays += made
        out = sys.stdout.buffer
        out.write(json.dumps({"there": there, "variables": variables}).encode() + b"\n")
        for array in arrays:
            out.write(array.data if array.size else b"")
        out.flush()
    except NotImplementedError:
        sys.exit("version 7.3")
    except MemoryError:
        sys.exit("memory")


if __name__ == "__main__":
    run(sys.argv[1:])
