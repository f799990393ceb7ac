"""The demonstrations of docs/research/errata.md show what they say, and the page quotes them."""

from __future__ import annotations

import json
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dm2l import DM2LClassifier
from dm2l.datasets import make_missing_multilabel
from dm2l.simulate import simulate_uniform

FOLDER = Path(__file__).parents[2] / "examples" / "errata"
PAGE = Path(__file__).parents[2] / "docs" / "research" / "errata.md"
RESULTS = json.loads((FOLDER / "results.json").read_text())
WITHOUT_DATA = {"nemenyi_constant", "unbounded_objective", "glocal_reference"}


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    """The scripts import each other as they do on the command line, from their own folder."""
    monkeypatch.syspath_prepend(str(FOLDER))


def cases():
    for name in RESULTS:
        marks = []
        if name not in WITHOUT_DATA:
            reason = "DM2L_DATA does not name a folder with the data sets"
            marks = [
                pytest.mark.slow,
                pytest.mark.skipif(not os.environ.get("DM2L_DATA"), reason=reason),
            ]
        elif name == "glocal_reference":
            reason = "DM2L_PAPER does not name the LaTeX source of the paper"
            marks = [pytest.mark.skipif(not os.environ.get("DM2L_PAPER"), reason=reason)]
        yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", list(cases()))
def test_a_quick_run_shows_what_the_demonstration_says(name):
    module = import_module(name)
    figures = import_module("demonstration").measure(module, **module.QUICK)
    timed = getattr(module, "TIMED", set())  # a busy machine may contradict these
    found = module.claims(figures).items()
    assert not [claim for claim, holds in found if not holds and claim not in timed]
    assert all(isinstance(line, str) for line in module.lines(figures))
    json.dumps(figures)


@pytest.mark.parametrize("name", list(RESULTS))
def test_stored_figures_show_it_too_and_print_what_is_stored(name):
    module, stored = import_module(name), RESULTS[name]
    assert module.lines(stored["figures"]) == stored["printed"]
    claims = {claim: bool(holds) for claim, holds in module.claims(stored["figures"]).items()}
    assert claims == stored["claims"]
    assert all(claims.values())


def test_every_demonstration_is_stored_with_its_settings_and_versions():
    run_all = import_module("run_all")
    scripts = {path.stem for path in FOLDER.glob("*.py")}
    parts = {"demonstration", "document", "released_code", "run_all"}
    assert list(RESULTS) == list(run_all.DEMONSTRATIONS)
    assert scripts - parts == set(RESULTS)
    for stored in RESULTS.values():
        assert set(stored["versions"]) == set(run_all.versions())
        assert stored["settings"].get("seeds", []) == stored["figures"].get("seeds", [])


def test_run_all_adds_to_the_file_what_it_ran(tmp_path, monkeypatch, capsys):
    out = tmp_path / "results.json"
    out.write_text(json.dumps({"auc_per_instance": RESULTS["auc_per_instance"]}))
    command = ["run_all.py", "--out", str(out), "--only", "nemenyi_constant"]
    monkeypatch.setattr(sys, "argv", command)
    import_module("run_all").main()
    found = json.loads(out.read_text())
    assert list(found) == ["auc_per_instance", "nemenyi_constant"]
    assert found["nemenyi_constant"]["printed"] == RESULTS["nemenyi_constant"]["printed"]
    assert "average ranks" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [out]


# -------------------------------------------------------------------------------------- the page


def test_page_has_the_stored_blocks():
    page = PAGE.read_text()
    assert import_module("document").fill(page, RESULTS) == page
    assert all(RESULTS[name]["printed"][0] in page for name in RESULTS)


def test_a_page_without_a_place_for_a_block_is_an_error():
    with pytest.raises(ValueError, match="no place for nemenyi_constant"):
        import_module("document").fill("", {"nemenyi_constant": RESULTS["nemenyi_constant"]})


def sections():
    page = PAGE.read_text()
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        block = "".join(re.findall(r"```text\n(.*?)```", section, flags=re.DOTALL))
        prose = re.sub(r"```text\n.*?```", "", section, flags=re.DOTALL)
        yield pytest.param(prose, block, id=section.split("\n")[0])


@pytest.mark.parametrize(("prose", "block"), list(sections()))
def test_figures_in_the_prose_stand_in_the_block_beside_it(prose, block):
    """Figures of three decimals literally, percentages as the rounded ones of the block."""
    printed = re.findall(r"\d+\.\d+", block)
    rounded = {
        f"{float(text):.{digits}f}"
        for text in printed
        for digits in range(3, 5)
        if len(text.split(".")[1]) >= digits
    }
    for figure in re.findall(r"\b\d+\.\d{3,}\b(?! %)", prose):
        assert figure in rounded, figure
    shares = [float(text) for text in re.findall(r"(\d+(?:\.\d+)?) ?%", block)]
    shares += [100 * float(text) for text in re.findall(r"\b0\.\d\b|\b1\.0\b", block)]
    for figure in re.findall(r"(\d+(?:\.\d+)?) %", prose):
        digits = len(figure.partition(".")[2])
        assert figure in {f"{share:.{digits}f}" for share in shares}, figure


def test_every_numbered_section_has_a_demonstration_and_says_what_dm2l_does():
    numbered = [case for case in sections() if case.id[0].isdigit()]
    assert len(numbered) == len(RESULTS)
    for case in numbered:
        prose, block = case.values
        assert block.startswith("$ python examples/errata/")
        assert {"*The paper*", "*dm2l*"} <= set(re.findall(r"\*The paper\*|\*dm2l\*", prose))


# ------------------------------------------------------------------------------------- the parts


@pytest.mark.parametrize("lambda_d", [1e-5, 0.5])
def test_released_code_takes_the_steps_of_the_library(lambda_d):
    """Two programs of the same descent, with and without batches of groups."""
    released = import_module("released_code")
    X, Y = make_missing_multilabel(80, n_labels=6, rho=1.0, random_state=3)
    hidden = simulate_uniform(Y, 0.8, random_state=3)
    T = np.nan_to_num(2 * hidden - 1)
    model = DM2LClassifier.published(lambda_d=lambda_d, max_iter=10).fit(X, hidden)
    assert model.n_iter_ >= 4  # at a kink the library stops, where the other halves its step
    surrogate = released.Surrogate(X, T, T > 0, lambda_d)
    *_, W = released.steepest_descent(surrogate, model.n_iter_)
    np.testing.assert_allclose(W, model.coef_.T, atol=1e-8)


def test_gradient_of_the_surrogate_is_that_of_its_value():
    released = import_module("released_code")
    random = np.random.default_rng(0)
    X, T = random.standard_normal((30, 4)), random.integers(-1, 2, size=(30, 3)).astype(float)
    surrogate = released.Surrogate(X, T, T > 0, 0.7)
    w, direction = random.standard_normal(12), random.standard_normal(12)
    ahead, behind = (surrogate.value(w + step * direction) for step in (1e-5, -1e-5))
    assert surrogate.gradient(w) @ direction == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


def test_products_agree_where_the_right_vectors_are_symmetric():
    """For ``V = V'`` rows and columns are the same: the slip does not show."""
    released = import_module("released_code")
    U = np.linalg.qr(np.random.default_rng(1).standard_normal((9, 3)))[0]
    Z = U * [3.0, 2.0, 1.0]
    np.testing.assert_allclose(released.algorithm_2(Z)[1], U, atol=1e-12)
    np.testing.assert_allclose(np.abs(released.released_product(Z)[1]), np.abs(U), atol=1e-12)
    P = np.roll(np.eye(3), 1, axis=0)  # P' is not P
    np.testing.assert_allclose(released.algorithm_2(Z @ P)[1], U @ P, atol=1e-12)
    np.testing.assert_allclose(
        np.abs(released.released_product(Z @ P)[1]), np.abs(U @ P.T), atol=1e-12
    )


@pytest.mark.parametrize("holds", [True, False])
def test_check_fails_when_something_is_not_shown(holds, monkeypatch, capsys):
    module = SimpleNamespace(
        __doc__="A demonstration.\n",
        QUICK={"seeds": (7,)},
        measure=lambda seeds=(1, 2): {"seeds": list(seeds)},
        lines=lambda found: [f"seeds {found['seeds']}"],
        claims=lambda found: {"the claim": holds},
    )
    monkeypatch.setattr(sys, "argv", ["script.py", "--check", "--quick"])
    main = import_module("demonstration").main
    if holds:
        main(module)
    else:
        with pytest.raises(SystemExit, match="Not shown: the claim"):
            main(module)
    assert capsys.readouterr().out == "seeds [7]\n"


def test_the_paper_s_tables_may_come_from_a_file(tmp_path):
    path = tmp_path / "tables.csv"
    path.write_text("dataset,rho,metric,method,value\nArts,0.7,Rkl,LEML,0.199\n")
    found = import_module("demonstration").published_figures(path)
    assert found == {("Arts", 0.7, "Rkl", "LEML"): 0.199}
    library = import_module("demonstration").published_figures()
    assert found.items() <= library.items()
    assert len(library) == 576
