"""Good files to change, a few kilobytes in all: ``python -m fuzz.corpus`` writes them anew.

Numbers are drawn, none comes from a data set. Model files and bundles are larger, and those of
today are wanted: they are made when a run begins.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from dm2l.outofcore import GramStatistics
from dm2l.review import Journal
from dm2l.tables import read_table

CORPUS = Path(__file__).parent / "corpus"
RNG = np.random.default_rng(0)
N, D, C = 24, 4, 3
X = RNG.standard_normal((N, D)).round(3)
Y = np.where(RNG.random((N, C)) < 0.3, np.nan, RNG.standard_normal((N, C)) > 0)
SIGNS = np.where(np.isnan(Y), 0, 2 * np.nan_to_num(Y) - 1).astype(np.int8)
POSITIVE = (SIGNS > 0).astype(np.int8)


def tables(folder: Path) -> None:
    """A table as text, packed in four ways, and as Parquet."""
    import pandas as pd

    rows = [["mass", "phase", "note", "t_a", "t_b"]]
    rows += [
        [str(X[i, 0]), "ab"[i % 2], f"x{i} y", ("yes", "no", "")[i % 3], "01"[i % 2]]
        for i in range(N)
    ]
    for separator, name in ((",", "table.csv"), ("\t", "table.tsv")):
        (folder / name).write_text("\n".join(separator.join(row) for row in rows))
    quoted = '"mass",phase,note,t_a,t_b\n1,"x, ""y""\n z",,1,?\n2,"",a,0,1\n-1e5,,"",NA,0\n'
    (folder / "quoted.csv").write_text(quoted)
    content = (folder / "table.csv").read_bytes()
    (folder / "table.csv.gz").write_bytes(gzip.compress(content, mtime=0))
    (folder / "table.csv.bz2").write_bytes(bz2.compress(content))
    (folder / "table.csv.xz").write_bytes(lzma.compress(content))
    with zipfile.ZipFile(folder / "table.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("table.csv"), content)
    frame = pd.read_csv(folder / "table.csv")
    frame.to_parquet(folder / "table.parquet", compression="gzip")
    frame.to_excel(folder / "table.xlsx", index=False)
    frame["t_a"] = frame["t_a"].map({"yes": 1.0, "no": 0.0})
    frame.drop(columns=["phase", "note"]).to_parquet(folder / "numbers.parquet", compression="gzip")


def matrices(folder: Path) -> None:
    """The same numbers as ARFF, svmlight, npz, npy and MATLAB."""
    head = ["@relation 'x: -C 3'", *(f"@attribute y{k} {{0,1}}" for k in range(C))]
    head += ["@attribute x0 numeric", "@attribute x1 {u,v,'w w'}"]
    arff = [*head, *(f"@attribute x{j} numeric" for j in range(2, D)), "@data"]
    words = ("u", "v", "'w w'", "?")
    for i in range(N):
        cells = [*map(str, (SIGNS[i] > 0) * 1), str(X[i, 0]), words[i % 4], *map(str, X[i, 2:])]
        arff.append(",".join(cells))
    (folder / "m.arff").write_text("\n".join(arff))
    (folder / "s.arff").write_text("\n".join([*head, "@data", "{0 1, 3 2.5}", "{1 1, 4 v}", "{}"]))
    lines = [
        ",".join(str(k) for k in range(C) if SIGNS[i, k] > 0)
        + "".join(f" {j + 1}:{X[i, j]:.4g}" for j in range(D))
        for i in range(N)
    ]
    (folder / "m.svm").write_text("\n".join(lines) + "\n")
    S = sp.csr_array(X * (X > 0))
    parts = {"data": S.data, "indices": S.indices, "indptr": S.indptr, "shape": np.array(S.shape)}
    np.savez_compressed(folder / "m.npz", **{f"X_{k}": v for k, v in parts.items()}, Y=POSITIVE)
    np.savez(folder / "dense.npz", X=X, Y=POSITIVE)
    np.save(folder / "x.npy", X)
    scipy.io.savemat(folder / "m.mat", {"X": sp.csc_matrix(S), "Y": POSITIVE.astype(float)})
    scipy.io.savemat(folder / "dense.mat", {"data": X, "target": POSITIVE.T}, do_compression=True)


def records(folder: Path) -> None:
    """Answers of a review, sums over rows."""
    journal = folder / "answers.jsonl"
    journal.unlink(missing_ok=True)
    with Journal(journal, read_table(folder / "table.csv", "t_*")) as opened:
        for i in range(2, N, 3):
            opened.add(i + 1, "t_a", ("yes", "no", "skip")[i // 3 % 3], 0.25)
    GramStatistics(D, C).add(X, SIGNS).save(folder / "sums.npz")


def rules(folder: Path) -> None:
    """Rules between labels as text and as a table, and scores of another model."""
    (folder / "rules.txt").write_text(
        't_a => t_b  # one implies the other\n"t, c" => t_a\nnot both: t_d, t_e\n'
        "at most one: t_f, t_g, t_h\nexactly one: t_i, t_j, t_k\n"
    )
    (folder / "rules.csv").write_text('child,parent\nt_a,t_b\n"t, c",t_a\n')
    scores = [f"{i},{X[i, 0]:.3f},{X[i, 1]:.3f}" for i in range(N)]
    (folder / "scores.csv").write_text("\n".join(["id,t_a,t_b", *scores]))


def main() -> None:
    """Write all of them."""
    CORPUS.mkdir(exist_ok=True)
    for make in (tables, matrices, records, rules):
        make(CORPUS)


if __name__ == "__main__":
    main()
