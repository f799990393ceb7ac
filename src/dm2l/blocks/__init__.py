"""Row blocks: data of any size as a sequence of (X, labels) that can be gone through again."""

from dm2l.blocks._form import LabelForm
from dm2l.blocks._source import Block, RemoteBlocks, RowBlocks

__all__ = ["Block", "LabelForm", "RemoteBlocks", "RowBlocks"]
