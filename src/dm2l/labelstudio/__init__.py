"""Label Studio: a machine-learning backend, tasks with predictions, and imported annotations."""

from dm2l.labelstudio._server import Backend, BackendServer
from dm2l.labelstudio._tasks import AnnotationSession, make_config

__all__ = ["AnnotationSession", "Backend", "BackendServer", "make_config"]
