"""The web server of the Label Studio backend."""

import base64
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from secrets import compare_digest, token_urlsafe
from threading import Lock, Thread
from typing import Any

from dm2l.labelstudio import _tasks
from dm2l.review._server import AccessError, Handler, LocalServer, Reply, json_reply

# Webhook actions that contain annotations, and actions that start training. Others are ignored.
ANNOTATED = ("ANNOTATION_CREATED", "ANNOTATIONS_CREATED", "ANNOTATION_UPDATED")
TRAIN = "START_TRAINING"


class Backend:
    """Label Studio backend, which predicts labels and learns from annotations.

    Parameters
    ----------
    session : AnnotationSession
        The model, its table, and the journal for annotations.
    refit_every : int, default=10
        Number of annotated tasks after which the model is refitted in the background.
    unchosen : {"no", "skip"}, default="no"
        How to read a choice that an annotator has not selected.
    tell : callable, default=None
        Function that is called with a message about each event.

    Notes
    -----
    :doc:`/commands/label-studio` has an example.
    """

    def __init__(
        self,
        session: _tasks.AnnotationSession,
        *,
        refit_every: int = 10,
        unchosen: str = "no",
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.session, self.refit_every, self.unchosen = session, refit_every, unchosen
        self.tell = (lambda line: None) if tell is None else tell
        self._lock = Lock()
        self._new, self._wanted = 0, False
        self._worker: Thread | None = None
        journal = session.journal
        if journal.decisions or journal.checks:  # the model lacks earlier answers
            self.refit()

    def reply(self, name: str, body: Any) -> Any:
        """Return the reply to the request ``name``; None if there is no such request."""
        if name == "health":
            return {"status": "UP", "model_class": "dm2l"}
        if name == "versions":
            return {"versions": [self.session.version]}
        if name not in ("setup", "predict", "webhook"):
            return None
        if not isinstance(body, Mapping):
            raise ValueError("A request must be a JSON object.")
        try:
            return getattr(self, f"_{name}")(body)
        except ValueError as error:  # Label Studio does not show the message
            self.tell(f"{name}: {error}")
            raise

    def _setup(self, body: Mapping[str, Any]) -> Any:
        self._controls(body.get("schema"))
        return {"model_version": self.session.version}

    def _predict(self, body: Mapping[str, Any]) -> Any:
        controls, tasks = self._controls(body.get("label_config")), body.get("tasks")
        if not isinstance(tasks, list) or not all(isinstance(task, Mapping) for task in tasks):
            raise ValueError("The request must contain a list 'tasks' of JSON objects.")
        # Tasks also contain annotations that were made while no backend was running.
        late = [(task, one) for task in tasks for one in _tasks.annotations_of(task)]
        self._take(late, controls, again=False)
        found = _tasks.predict_tasks(self.session, tasks, controls)
        return {"results": found, "model_version": self.session.version}

    def _webhook(self, body: Mapping[str, Any]) -> Any:
        action, taken = body.get("action"), 0
        if action in ANNOTATED:
            project = body.get("project")
            config = project.get("label_config") if isinstance(project, Mapping) else None
            # A webhook contains one pair of task and annotation, or several.
            tasks, made = body.get("task"), body.get("annotation")
            if not isinstance(made, list):
                tasks, made = [tasks], [made]
            if not isinstance(tasks, list) or len(tasks) != len(made):
                tasks = [None]
            if not all(isinstance(task, Mapping) for task in tasks):
                raise ValueError("Each annotation in a request must have a task.")
            taken = self._take(zip(tasks, made, strict=True), self._controls(config))
        elif action == TRAIN:
            self.refit()
        return {"answers": taken}

    def _controls(self, config: Any) -> _tasks.Controls:
        if not isinstance(config, str):
            raise ValueError("The request must contain a labelling configuration.")
        return _tasks.read_config(config, tuple(self.session.table.label_names))

    def _take(self, made: Iterable[Any], controls: _tasks.Controls, *, again: bool = True) -> int:
        """Save annotations of tasks to the journal, and return the number of new answers."""
        taken, n_tasks = 0, 0
        for task, annotation in made:
            row = _tasks.row_of(task, self.session)
            answers = _tasks.answers_of(annotation, controls, self.unchosen)
            if row is None:
                self.tell("ignored the annotation of a task that is not a row of the table")
                continue
            new = self.session.annotate(row, answers, again=again)
            taken, n_tasks = taken + new, n_tasks + (new > 0)
        with self._lock:
            self._new += n_tasks
            due = self._new >= self.refit_every
        if due:
            self.refit()
        return taken

    def refit(self) -> None:
        """Refit the model in the background, after any refit that is already running."""
        with self._lock:
            self._wanted, self._new = True, 0
            if self._worker is None:
                self._worker = Thread(target=self._work, daemon=True)
                self._worker.start()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until no refit is running."""
        if (worker := self._worker) is not None:
            worker.join(seconds)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._worker = None
                    return
                self._wanted = False
            self.session.start_refit()
            self.session.wait()
            error = self.session.refit_state.error
            version = self.session.version
            self.tell(f"refit failed: {error}" if error else f"refitted the model: {version}")


class _Handler(Handler):
    """Handles requests from Label Studio."""

    server: "BackendServer"
    most_bytes = 2**26  # Label Studio sends all tasks that need predictions at once

    def admitted(self, path: str) -> str:
        # Only web pages send an Origin; Label Studio does not.
        if "Origin" in self.headers:
            raise AccessError(403, "Requests from web pages are not allowed.")
        first, slash, rest = path.removeprefix("/").partition("/")
        # Label Studio sends the token as a password, but in webhooks as a part of the address.
        for given, name in ((first, rest), (self._secret(), f"{first}{slash}{rest}")):
            if compare_digest(given.encode(), self.server.token.encode()):
                return name
        raise AccessError(401, "No valid token. Use the address that dm2l backend printed.")

    def _secret(self) -> str:
        scheme, _, value = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() in ("bearer", "token"):
            return value.strip()
        try:
            text = base64.b64decode(value, validate=True).decode()
        except ValueError:
            return ""
        return text.partition(":")[2]

    def get(self, name: str, query: dict[str, str]) -> Reply | None:
        return self._reply(name, None) if name in ("health", "versions") else None

    def post(self, name: str) -> Reply | None:
        return self._reply(name, self.body())

    def _reply(self, name: str, body: object) -> Reply | None:
        found = self.server.backend.reply(name, body)
        return None if found is None else json_reply(found)


class BackendServer(LocalServer):
    """Web server of a :class:`~dm2l.labelstudio.Backend`; it rejects requests without the token.

    Requests send the token in the path (as in ``url``), in a header ``Authorization: Token TOKEN``,
    or as the password of basic authentication.
    """

    def __init__(
        self, backend: Backend, token: str, *, host: str = "127.0.0.1", port: int = 9090
    ) -> None:
        check_token(token)
        self.backend, self.token = backend, token
        super().__init__(_Handler, host, port)
        self.url = f"{self.origin}/{token}"


def check_token(token: str) -> None:
    """Raise an error if a token is easy to guess or cannot be part of an address."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{20,200}", token):
        raise ValueError("A token must have 20 to 200 characters: letters, digits, - or _.")


def kept_token(path: Path) -> str:
    """Read the token from a file, or create the file with a new token."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        token = path.read_bytes()[:1000].decode("ascii", errors="replace").strip()
        try:
            check_token(token)
        except ValueError as error:
            raise ValueError(
                f"{path} has no valid token. {error} Delete the file to get a new token."
            ) from error
    else:
        token = token_urlsafe(32)
        with os.fdopen(number, "w") as file:
            file.write(f"{token}\n")
    return token
