"""Commands of dm2l in processes of their own, most of them forked from one that has loaded it."""

import multiprocessing
import os
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection

import pytest

# A shell that starts things in the background may have them ignore SIGINT.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from dm2l.cli import main
main()
"""
METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_CONTEXT = multiprocessing.get_context(METHOD)


def preload():
    """Name what the process loads that others are forked from: each would take a second for it."""
    if METHOD == "forkserver":
        loaded = ["dm2l.cli._review", "dm2l.labelstudio", "dm2l.io._mat_child", "running_commands"]
        _CONTEXT.set_forkserver_preload(loaded)


preload()


def _main(arguments, *streams):
    for number, stream in enumerate(streams, 1):
        os.dup2(stream.fileno(), number)
    sys.argv = ["dm2l", *arguments]
    exec(PROGRAM, {})


class Command:
    """A running command; ``fresh`` starts the interpreter as well."""

    def __init__(self, *arguments, fresh=False):
        arguments = [str(argument) for argument in arguments]
        pipes = [_CONTEXT.Pipe(duplex=False) for _ in range(2)]
        writers = [writer for _, writer in pipes]
        if fresh:
            command, (out, err) = [sys.executable, "-c", PROGRAM, *arguments], writers
            self._process = subprocess.Popen(command, stdout=out.fileno(), stderr=err.fileno())
            self._wait = self._process.wait
        else:
            self._process = _CONTEXT.Process(target=_main, args=(arguments, *writers))
            self._process.start()
            self._wait = self._joined
        for writer in writers:
            writer.close()
        self.out, self.err = (os.fdopen(os.dup(reader.fileno())) for reader, _ in pipes)
        for reader, _ in pipes:
            reader.close()
        self._ended = None

    def _joined(self, timeout):
        self._process.join(timeout)
        return self._process.exitcode

    def first_line(self):
        """The first line that the command prints; a failure if it ends without one."""
        return self.out.readline() or pytest.fail(self.end()[2])

    def end(self, number=signal.SIGKILL):
        """Send a signal; returns exit code, standard output and standard error."""
        if self._ended is None:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.kill(self._process.pid, number)
            code = self._wait(60)
            with self.out, self.err:
                self._ended = code, self.out.read(), self.err.read()
        return self._ended


class MatlabReader:
    """The process that reads a MATLAB file, as ``subprocess.Popen`` would start it."""

    def __init__(self, command, *, stderr, **_):
        reader, writer = _CONTEXT.Pipe(duplex=False)
        with writer, Connection(os.dup(stderr.fileno()), readable=False) as messages:
            arguments = command[3:], writer, messages
            self._process = _CONTEXT.Process(target=_read_matlab, args=arguments)
            self._process.start()
        self.stdout = os.fdopen(os.dup(reader.fileno()), "rb")
        reader.close()
        self.kill = self._process.kill

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stdout.close()
        self.wait()

    def wait(self):
        self._process.join(60)
        return self._process.exitcode


def _read_matlab(arguments, out, err):
    from dm2l.io import _mat_child

    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    _mat_child.run(arguments)
