"""`make audit`: known vulnerabilities in what is locked. Where the advisories cannot be read it says so, and fails only
where MATMUL_REQUIRE_AUDIT is set.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LOCKED = (Path("constraints/run.txt"), Path("constraints/client.txt"))
ARGUMENTS = ("--disable-pip", "--require-hashes", "--format", "json", "--progress-spinner", "off", "--timeout", "10")


def findings(report: str) -> list[str] | None:
    """A line for each vulnerability; None for what is no report."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return [
        f"{package['name']} {package.get('version', '')}: {found['id']}, fixed in "
        f"{' or '.join(found['fix_versions']) or 'no version yet'}"
        for package in packages
        for found in package.get("vulns", [])
    ]


def judge(report: str, complaint: str, *, required: bool) -> tuple[int, Sequence[str]]:
    """The exit status, and what to say."""
    found = findings(report)
    if found is None:
        why = complaint.strip().rpartition("\n")[2][:300] or "pip-audit said nothing"
        return int(required), (f"not audited, for the advisories could not be read: {why}",)
    return (1, found) if found else (0, ("no known vulnerability in what is locked",))


def main() -> int:
    files = (word for path in LOCKED for word in ("-r", str(path)))
    command = [str(Path(sys.executable).with_name("pip-audit")), *ARGUMENTS, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    status, lines = judge(done.stdout, done.stderr, required=bool(os.environ.get("MATMUL_REQUIRE_AUDIT")))
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    sys.exit(main())
