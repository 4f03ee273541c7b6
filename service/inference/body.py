"""The JSON of an inference request, without its elements."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import FailFast, Field

from jobs.base import Strict
from service.bodies.options import NO_OPTIONS, MatmulOptions

MAX_ID_CHARACTERS = 1024
OUTPUT = "C"
US_PER_S = 1e6


class InRegion(Strict):
    """Where in shared memory a tensor is."""

    shared_memory_region: str | None = None
    shared_memory_byte_size: int | None = Field(None, ge=0)
    shared_memory_offset: int = Field(0, ge=0)

    @property
    def is_in_region(self) -> bool:
        return self.shared_memory_region is not None


class InputParameters(InRegion):
    """The location of an input's elements if they are not in the JSON."""

    binary_data_size: int | None = Field(None, ge=0)


class Input(Strict):
    """An operand. Its `data` are removed beforehand and checked by a stricter and faster parser."""

    name: Literal["A", "B", "C"]
    shape: tuple[int, ...]
    datatype: str
    parameters: InputParameters = InputParameters()


class OutputParameters(InRegion):
    """How an output is sent."""

    binary_data: bool | None = None


AS_USUAL = OutputParameters()


class Output(Strict):
    """The requested output; there is only one."""

    name: Literal["C"]
    parameters: OutputParameters = AS_USUAL


class Parameters(MatmulOptions):
    """The options of the product, and other parameters of the protocol's clients."""

    priority: int = Field(0, ge=0, lt=2**64)  # has no effect: keys are served round-robin
    timeout: int = Field(0, ge=0, lt=2**63)  # microseconds; 0: as long as the server waits
    binary_data_output: bool = False

    @property
    def timeout_s(self) -> float | None:
        return self.timeout / US_PER_S if self.timeout else None

    @property
    def options(self) -> MatmulOptions:
        """The product's options."""
        if self.model_fields_set.isdisjoint(MatmulOptions.model_fields):
            return NO_OPTIONS
        return MatmulOptions.model_construct(**{name: getattr(self, name) for name in MatmulOptions.model_fields})


NO_PARAMETERS = Parameters()


class InferBody(Strict):
    """The whole request body."""

    id: str = Field("", max_length=MAX_ID_CHARACTERS)
    inputs: Annotated[tuple[Input, ...], FailFast()]
    outputs: Annotated[tuple[Output, ...], FailFast()] = ()
    parameters: Parameters = Field(default_factory=lambda: NO_PARAMETERS)  # a default would be copied each time

    @property
    def output(self) -> OutputParameters:
        """The parameters of the one output, whether it is named or not."""
        return self.outputs[0].parameters if self.outputs else AS_USUAL

    @property
    def is_binary(self) -> bool:
        """Whether the product follows the reply's JSON as raw bytes."""
        named = self.output.binary_data
        return self.parameters.binary_data_output if named is None else named
