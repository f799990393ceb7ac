"""SECURITY.md names the limits that the code has, and the kinds that the fuzzer tries."""

import hmac
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from dm2l.labelstudio import _server as backend
from dm2l.persistence._archive import MAX_BYTES
from dm2l.review import _server as page
from dm2l.review._server import AccessError

TEXT = " ".join((Path(__file__).parents[1] / "SECURITY.md").read_text(encoding="utf-8").split())


def test_the_limits_are_those_of_the_code():
    for words in (
        f"a request that has not arrived completely within {page.Handler.timeout} seconds",
        f"handles at most {page.MOST_WORKERS} requests at the same time",
        f"JSON with more than {page.MOST_VALUES:,} values or {page.MOST_NESTED} levels",
        f"body of a request (at most {backend._Handler.most_bytes // 2**20} MiB)",
        f"a file of {MAX_BYTES // 2**30} GiB",
    ):
        assert words in TEXT


@pytest.mark.parametrize(("module", "path"), [(page, "/guess/state"), (backend, "/guess/health")])
def test_tokens_are_compared_in_constant_time(module, path, monkeypatch):
    compared = []

    def compare(one, other):
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(module, "compare_digest", compare)
    server = SimpleNamespace(token="secret")
    handler = SimpleNamespace(server=server, headers={}, _secret=lambda: "other")
    with pytest.raises(AccessError, match="No valid token"):
        module._Handler.admitted(handler, path)
    assert (b"guess", b"secret") in compared
    assert module._Handler.admitted(handler, path.replace("guess", "secret")) == path[7:]


def test_the_kinds_are_those_of_the_fuzzer():
    targets = (Path(__file__).parents[1] / "fuzz/targets.py").read_text(encoding="utf-8")
    named = re.findall(r"- `(\w+)`(?: and `(\w+)`)?", TEXT.partition("## How it is tested")[2])
    kinds = {kind for pair in named for kind in pair if kind}
    assert kinds == {"hostile", "workbook", "page", "backend"}
    assert all(f'    "{kind}": Target(' in targets for kind in kinds)
