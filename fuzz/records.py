"""Changes to journals that leave them well-formed."""

from __future__ import annotations

import hashlib
import json
import random

from fuzz.mutations import mutate

WORDS = [None, [], {}, [[]], -1, 10**20, "x", "t_b", float("nan"), True, {"a": [1]}]


def change_journal(content: bytes, rng: random.Random) -> bytes:
    """Half of the time a changed line with a right seal."""
    if rng.random() < 0.5:
        return mutate(content, rng)
    lines = content.splitlines()
    k = rng.randrange(1, len(lines))
    previous = json.loads(lines[k - 1])["seal"]
    line = json.loads(lines[k])
    del line["seal"]
    line[rng.choice([*line, "output", "probability"])] = rng.choice(WORDS)
    if rng.random() < 0.2:
        line = {"output": rng.choice(WORDS), "time": line["time"]}
    text = json.dumps(line)
    seal = hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()[:16]
    lines[k:] = [f'{text[:-1]}, "seal": "{seal}"}}'.encode()]
    return b"\n".join(lines) + b"\n"
