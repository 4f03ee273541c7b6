"""The JSON of an inference request, without its elements."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from jobs.base import Strict
from service.bodies.options import MatmulOptions

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
    """Where an input's elements are, where they are not in the JSON."""

    binary_data_size: int | None = Field(None, ge=0)


class Input(Strict):
    """An operand. Its `data` are taken out before: their elements are checked by a stricter and faster hand."""

    name: Literal["A", "B", "C"]
    shape: tuple[int, ...]
    datatype: str
    parameters: InputParameters = InputParameters()


class OutputParameters(InRegion):
    """How an output is sent."""

    binary_data: bool | None = None


class Output(Strict):
    """A product that is wanted: there is but one."""

    name: Literal["C"]
    parameters: OutputParameters = OutputParameters()


class Parameters(MatmulOptions):
    """How to multiply, and what the protocol's clients say beside that."""

    priority: int = Field(0, ge=0, lt=2**64)  # has no effect: keys take turns
    timeout: int = Field(0, ge=0, lt=2**63)  # microseconds; 0: as long as the server waits
    binary_data_output: bool = False

    @property
    def timeout_s(self) -> float | None:
        return self.timeout / US_PER_S if self.timeout else None

    @property
    def options(self) -> MatmulOptions:
        """What is the product's."""
        return MatmulOptions.model_construct(**{name: getattr(self, name) for name in MatmulOptions.model_fields})


class InferBody(Strict):
    """All of it."""

    id: str = Field("", max_length=MAX_ID_CHARACTERS)
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...] = ()
    parameters: Parameters = Parameters()

    @property
    def output(self) -> OutputParameters:
        """Of the one output, whether it is named or not."""
        return self.outputs[0].parameters if self.outputs else OutputParameters()

    @property
    def is_binary(self) -> bool:
        """Whether the product is to follow the reply's JSON."""
        named = self.output.binary_data
        return self.parameters.binary_data_output if named is None else named
