"""Label Studio integration: machine-learning backend, task export and annotation import."""

from dm2l.labelstudio._server import Backend, BackendServer
from dm2l.labelstudio._tasks import AnnotationSession, make_config

__all__ = ["AnnotationSession", "Backend", "BackendServer", "make_config"]
