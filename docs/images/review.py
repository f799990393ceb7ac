"""The picture of the review page: writes review.png beside it.

    python docs/images/review.py        # needs Chromium; make browser installs it

The table has tickets of a help desk, made up, with half of the labels missing.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from dm2l.review import Journal, ReviewSession, serve
from dm2l.tables import FitOptions, fit_table, read_table

HERE = Path(__file__).parent
WORDS = {
    "billing": "invoice charge paid",
    "refund": "refund money back",
    "login": "password locked",
}


def tickets() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    truth = pd.DataFrame({name: rng.random(240) < 0.35 for name in WORDS})
    truth["billing"] |= truth["refund"]
    texts = []
    for applies in truth.to_numpy():
        about = np.array([*WORDS.values()])[applies ^ (rng.random(3) < 0.1)]
        said = [rng.choice(part.split()) for part in about]
        texts.append(" ".join([*rng.choice(["please", "since", "today", "our", "with"], 4), *said]))
    labels = truth.astype(object).mask(rng.random(truth.shape) < 0.5)
    frame = pd.DataFrame({"ticket": [f"T{i:03d}" for i in range(240)], "text": texts})
    return frame.join(labels.replace({True: "yes", False: "no"}).add_prefix("topic_"))


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("Chromium is needed: make browser")
    with TemporaryDirectory() as folder:
        path = Path(folder, "tickets.csv")
        tickets().to_csv(path, index=False)
        table = read_table(path, "topic_*")
        model = fit_table(table, FitOptions(kernel="linear"), estimate_folds=0)
        session = ReviewSession(model, table, Journal(Path(folder, "answers.jsonl"), table))
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,700"]

        def photograph(address: str) -> None:
            waiting = ["--virtual-time-budget=4000", f"--screenshot={HERE / 'review.png'}"]
            subprocess.run([browser, *options, *waiting, address], check=True, capture_output=True)
            signal.raise_signal(signal.SIGINT)  # ends the server

        def announce(address: str) -> None:
            threading.Thread(target=photograph, args=[address]).start()

        serve(session, announce=announce)


if __name__ == "__main__":
    main()
