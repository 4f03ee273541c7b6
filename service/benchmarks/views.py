"""Response models of /v1/benchmarks, apart from jobs and results."""

from __future__ import annotations

from pydantic import Field

from jobs.base import Strict
from jobs.benchmarks.spec import BenchmarkSpec


class DryRun(Strict):
    """The result of a dry run: what the benchmark would be."""

    cases: int = Field(
        description="Kernel, config, shape and element type, each combination once, baselines among them. For `tune`: "
        "kernels times problems. 0 for `ceilings`.",
        examples=[20],
    )
    measurements: int = Field(
        description="Cases times rounds; for `tune` an estimate, with those that choose the configs.", examples=[40]
    )
    skipped: int = Field(description="Cases that cannot run on the device; each gets a record that says why.")
    flops: float = Field(
        description="Operations of all measurements, at the least number of samples.", examples=[61341696000.0]
    )
    estimate_s: float = Field(
        description="A guess at the seconds that it takes once it runs. GPU: by the speed of the kernels in results "
        "that ship with the service, scaled by the devices' roofs where they are of another model. CPU: by 30 GFLOPS "
        "a core. How many samples the noise will ask for is not known before.",
        examples=[12.5],
    )
    device: str = Field(description="Model of device that it would be for.", examples=["NVIDIA H200"])
    spec: BenchmarkSpec = Field(description="The whole spec, with every default filled in.")


class PresetView(Strict):
    """A benchmark with a name."""

    name: str = Field(description="What `preset` takes.", examples=["quick"])
    summary: str = Field(description="What it measures, in one line.")
    redoes: str | None = Field(description="Which report's work it does again, by the numbers of GET /v1/published.")
    spec: BenchmarkSpec = Field(description="Its whole spec, on the device that it would be for now.")
    device: str | None = Field(
        description="Model of device that it would be for now; null where no live worker can run it.",
        examples=["NVIDIA H200"],
    )
    cases: int | None = Field(description="How many cases it has there; null without a device.", examples=[20])
    estimate_s: float | None = Field(
        description="A guess at the seconds that it takes there; null without a device.", examples=[12.5]
    )


class PresetList(Strict):
    """The presets."""

    presets: tuple[PresetView, ...] = Field(
        description="A first look, the reports' work, then the device's own roofs and best configs."
    )
