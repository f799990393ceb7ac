"""Label Studio: a machine-learning backend, tasks with predictions, and annotations."""

from dm2l.labelstudio._backend import Backend
from dm2l.labelstudio._server import BackendServer
from dm2l.labelstudio._session import AnnotationSession
from dm2l.labelstudio._tasks import make_config

__all__ = [
    "AnnotationSession",
    "Backend",
    "BackendServer",
    "make_config",
]
