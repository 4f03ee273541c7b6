"""Checks the types of the pages' scripts, as their comments state them: `python -m tools.check_scripts`.

tsconfig.json says how strictly. TypeScript's compiler is no Python package: where there is none this says so and is
content, but on CI it fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILER = "tsc"
MISSING = f"{COMPILER} is not installed (Debian, Ubuntu: apt-get install node-typescript): scripts were NOT checked"


def main() -> None:
    compiler = shutil.which(COMPILER)
    if compiler is None:
        print(MISSING, file=sys.stderr)
        sys.exit(int("CI" in os.environ))
    sys.exit(subprocess.run([compiler, "--project", ROOT / "tsconfig.json"], cwd=ROOT).returncode)


if __name__ == "__main__":
    main()
