"""Build the archives of the last commit, try the wheel alone, say what it is delivered with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from release.archives import ROOT, build_twice, digest, git, pins, recipe
from release.components import Components

WORK, DIST = ROOT / "build" / "release", ROOT / "dist"
# torch, of the extra torch, has sizes and sources of its own.
EXTRAS = "cli,io,plot,scale,onnx"


def call(*words: object, **settings: object) -> subprocess.CompletedProcess[str]:
    """Run a program away from the checkout, which must not lend its sources."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "DM2L_DATA")}
    command = list(map(str, words))
    return subprocess.run(command, cwd=WORK, env=clean, text=True, check=True, **settings)  # type: ignore[call-overload]


def main() -> None:
    """Do all of it; the first failure ends it."""
    for folder in (WORK, DIST):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    epoch = int(git("log", "-1", "--format=%ct"))
    print(f"Archives of {git('log', '-1', '--format=%h %s')}")
    if git("status", "--porcelain"):
        print("  (what is not committed is not in them)")
    source, wheel = build_twice(WORK, epoch)
    version = wheel.name.split("-")[1]
    tag = os.environ.get("RELEASE_TAG", f"v{version}")
    if tag != f"v{version}":
        raise SystemExit(f"the tag is {tag}, the version {version}")
    print("  three builds, the same bytes")

    print("The wheel alone, in an empty environment")
    venv.create(WORK / "env", with_pip=True)
    python = WORK / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    (WORK / "pins.txt").write_text(pins())
    smoke = WORK / "first" / "release" / "smoke.py"  # of the commit, as the wheel is
    pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "-qq", "-c", "pins.txt")
    call(*pip, wheel)
    call(python, smoke, "contract")
    # As the messages tell people who lack an extra: pip takes the installed dm2l for it.
    print(f"Every command, after pip install 'dm2l[{EXTRAS}]'")
    call(*pip, f"dm2l[{EXTRAS}]")
    call(python, smoke, "commands")

    site = call(
        python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", stdout=-1
    ).stdout.strip()
    parts = Components("dm2l", Path(site))
    unstated = [one for one in parts.required | parts.optional if not parts.licence(one)]
    unstated = sorted(set(unstated) & set(parts.installed))
    if unstated:
        raise SystemExit(f"{', '.join(unstated)}: no licence is stated")
    for path in (source, wheel):
        shutil.copy2(path, DIST)
    bill = json.dumps(parts.bill(epoch), indent=2) + "\n"
    (DIST / f"dm2l-{version}.cdx.json").write_text(bill)
    (DIST / f"dm2l-{version}-licences.txt").write_text(parts.licences(), encoding="utf-8")
    (DIST / "recipe.yaml").write_text(recipe(source, version))
    sums = "".join(f"{digest(path)}  {path.name}\n" for path in sorted(DIST.iterdir()))
    (DIST / "SHA256SUMS").write_text(sums)
    print(f"dist/, {len(parts.required)} required and {len(parts.optional)} optional packages:")
    print(sums, end="")


if __name__ == "__main__":
    sys.exit(main())
