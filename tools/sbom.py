"""`make sbom`: what this service is made of, as CycloneDX, out of the locked requirements."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

CONSTRAINTS = Path(__file__).parents[1] / "constraints"
_PACKAGE = re.compile(r"^([\w.-]+)==([^\s;\\]+)(?:[^\n]*\\\n(?:[^\n]*\\\n)*[^\n]*)?", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(locked: str) -> Iterator[Component]:
    """One for each locked version. Each hash is that of one of its files."""
    for found in _PACKAGE.finditer(locked):
        name, number = found[1], found[2]
        yield Component(
            name=name,
            version=number,
            type=ComponentType.LIBRARY,
            purl=PackageURL("pypi", None, name, number),
            bom_ref=f"{name}=={number}",
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=text) for text in _HASH.findall(found[0])],
        )


def bom_of(name: str) -> Bom:
    """The bill of materials of constraints/<name>.txt."""
    bom = Bom()
    bom.metadata.component = Component(
        name="matmul-service", version=version("matmul-service"), type=ComponentType.APPLICATION
    )
    bom.components.update(components((CONSTRAINTS / f"{name}.txt").read_text()))
    bom.register_dependency(bom.metadata.component, bom.components)
    return bom


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.sbom", description=__doc__)
    parser.add_argument("--of", default="run", choices=("run", "cuda12", "cuda13"), help="which locked requirements")
    parser.add_argument("--out", type=Path, default=Path("sbom.json"), help="file to write")
    chosen = parser.parse_args()
    bom = bom_of(chosen.of)
    chosen.out.write_text(JsonV1Dot6(bom).output_as_string(indent=2) + "\n")
    print(f"{chosen.out}: {len(bom.components)} packages of constraints/{chosen.of}.txt")
    return 0


if __name__ == "__main__":
    sys.exit(main())
