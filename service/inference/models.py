"""The models: `matmul`, which runs any kernel, and each kernel of the catalogue by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.errors import InvalidRequest, NotFound, NoWorkerForKernel, NoWorkers
from jobs.fleet.workers import WorkerInfo
from jobs.ledger.totals import Served
from kernels.catalog import CATALOG
from kernels.model.kernel import Kernel
from kernels.model.numerics import DTYPES
from service.bodies.options import MatmulOptions
from service.inference.datatypes import datatypes_of
from service.submit.plan import AUTO

ANY_KERNEL = "matmul"
VERSION = "1"
PLATFORM = "matmul_service"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model, one of MODELS. `kernel` is None for the model that runs any kernel."""

    name: str
    kernel: Kernel | None

    def options(self, asked: MatmulOptions) -> MatmulOptions:
        """The options with the model's kernel. Raises InvalidRequest if they name another."""
        if self.kernel is None:
            return asked
        if asked.kernel not in (AUTO, self.name):
            raise InvalidRequest(
                f"The model {self.name} runs the kernel {self.name}; leave kernel out, or take the model {ANY_KERNEL}.",
                field="parameters.kernel",
            )
        return asked.model_copy(update={"kernel": self.name})

    def is_served(self, workers: Sequence[WorkerInfo]) -> bool:
        return any(self.kernel is None or self.name in worker.kernels for worker in workers)

    def check_served(self, workers: Sequence[WorkerInfo]) -> None:
        """Raises NoWorkers, NoWorkerForKernel."""
        if not workers:
            raise NoWorkers
        if not self.is_served(workers):
            raise NoWorkerForKernel(f"No live worker serves {self.name}.")

    @property
    def metadata(self) -> dict[str, Any]:
        """The model's metadata. Tensors may also have other datatypes and a leading batch axis, but metadata can
        describe only one form.
        """
        operand, product = datatypes_of(self.kernel)
        shape = [-1, -1]
        return {
            "name": self.name,
            "versions": [VERSION],
            "platform": PLATFORM,
            "inputs": [{"name": name, "datatype": operand, "shape": shape} for name in "AB"],
            "outputs": [{"name": "C", "datatype": product, "shape": shape}],
        }

    @property
    def config(self) -> dict[str, Any]:
        """The model's configuration in Triton's form. A batch is an axis of the operands, so there is no batch size."""
        metadata = self.metadata

        def listed(tensors: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
            return [{"name": t["name"], "data_type": f"TYPE_{t['datatype']}", "dims": t["shape"]} for t in tensors]

        return {
            "name": self.name,
            "platform": PLATFORM,
            "backend": PLATFORM,
            "max_batch_size": 0,
            "input": listed(metadata["inputs"]),
            "output": listed(metadata["outputs"]),
        }

    def statistics(self, served: Mapping[str, Served]) -> dict[str, Any]:
        """Statistics of the products that ran the model's kernel, or of all products; failed ones count for the
        requested kernel.
        """
        total = sum(served.values(), Served()) if self.kernel is None else served.get(self.name, Served())
        times = {
            "success": (total.products, total.total_ns),
            "fail": (total.failed, total.failed_ns),
            "queue": (total.products, total.queue_ns),
            "compute_input": (total.products, total.h2d_ns),
            "compute_infer": (total.products, total.kernel_ns),
            "compute_output": (total.products, total.d2h_ns),
            "cache_hit": (0, 0),
            "cache_miss": (0, 0),
        }
        return {
            "name": self.name,
            "version": VERSION,
            "inference_count": total.products,
            "execution_count": total.launches,
            "inference_stats": {name: {"count": count, "ns": ns} for name, (count, ns) in times.items()},
            "batch_stats": [],
        }


# Kernels that support a type of the protocol.
_KERNELS = [kernel for kernel in CATALOG if not all(DTYPES[dtype].is_complex for dtype in kernel.dtypes)]
MODELS: Mapping[str, Model] = {
    model.name: model for model in (Model(ANY_KERNEL, None), *(Model(kernel.name, kernel) for kernel in _KERNELS))
}


def find_model(name: str, version: str = VERSION) -> Model:
    """Raises NotFound."""
    if name not in MODELS:
        raise NotFound(f"There is no model {name[:40]!a}; there are {ANY_KERNEL} and one for each kernel.")
    if version != VERSION:
        raise NotFound(f"{name} has the version {VERSION} alone.", field="version")
    return MODELS[name]


def model_of(path_params: Mapping[str, str]) -> Model:
    """The model that a path names. Raises NotFound."""
    return find_model(path_params["name"], path_params.get("version", VERSION))
