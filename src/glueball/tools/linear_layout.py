"""Linear maps over F2 with the names and argument orders of the peer's tool, for programs that use it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from glueball import layouts
from glueball.errors import LayoutError
from glueball.layouts import display


@dataclass(frozen=True, slots=True)
class LinearLayout:
    """A linear map over F2; `layout` is the same map as a `glueball.layouts.LinearLayout`.

    `a * b` is the direct sum: `a` for the low bits of all indices and coordinates, `b` for those above.
    """

    layout: layouts.LinearLayout

    @classmethod
    def identity_1d(cls, size: int, in_dim: str, out_dim: str) -> LinearLayout:
        """The map of `size` indices onto as many coordinates, each onto itself."""
        return cls(layouts.LinearLayout.identity_1d(size, in_dim, out_dim))

    @classmethod
    def strided_1d(cls, size: int, stride: int, in_dim: str, out_dim: str) -> LinearLayout:
        """The map of `size` indices i to the coordinates i * stride, in an output of size * stride."""
        return cls(layouts.LinearLayout.strided_1d(size, stride, in_dim, out_dim))

    @classmethod
    def zeros_1d(cls, size: int, in_dim: str, out_dim: str, out_dim_size: int = 1) -> LinearLayout:
        """The map of `size` indices to coordinate 0 of an output of `out_dim_size`."""
        return cls(layouts.LinearLayout.zeros_1d(size, in_dim, out_dim, out_dim_size))

    @classmethod
    def from_bases(
        cls,
        bases: Mapping[str, Iterable[Sequence[int]]] | Iterable[tuple[str, Iterable[Sequence[int]]]],
        out_dim_names: Sequence[str],
        out_dim_sizes: Sequence[int] | None = None,
        require_surjective: bool = True,
    ) -> LinearLayout:
        """The map with these coordinate bases, by input dimension, lowest bit first.

        Sizes that are not given are the least that hold the bases. Raises LayoutError where a basis does not fit, or
        where the map is required to reach every point and does not.
        """
        vectors = {name: [tuple(vector) for vector in group] for name, group in dict(bases).items()}
        if out_dim_sizes is None:
            columns = [
                [vector[axis] for group in vectors.values() for vector in group] for axis in range(len(out_dim_names))
            ]
            out_dim_sizes = [1 << max(column, default=0).bit_length() for column in columns]
        layout = layouts.LinearLayout.from_bases(vectors, out_dim_sizes, out_dim_names)
        if require_surjective and not layout.is_surjective():
            raise LayoutError(f"a layout is expected to be surjective, this one leaves out points:\n{layout}")
        return cls(layout)

    @property
    def bases(self) -> list[tuple[str, list[list[int]]]]:
        """Input dimensions with their coordinate bases, lowest bit first."""
        return list(self.layout.bases.items())

    @property
    def out_dims(self) -> list[tuple[str, int]]:
        """Output dimensions with their sizes."""
        return list(zip(self.layout.outputs, self.layout.shape, strict=True))

    @property
    def num_in_dims(self) -> int:
        """Number of input dimensions."""
        return len(self.layout.inputs)

    @property
    def num_out_dims(self) -> int:
        """Number of output dimensions."""
        return len(self.layout.outputs)

    def get_in_dim_names(self) -> list[str]:
        """Names of the input dimensions."""
        return list(self.layout.inputs)

    def get_out_dim_names(self) -> list[str]:
        """Names of the output dimensions."""
        return list(self.layout.outputs)

    def apply(self, inputs: Mapping[str, int]) -> dict[str, int]:
        """The coordinates of one index, which must give every input dimension."""
        if set(inputs) != set(self.layout.inputs):
            raise LayoutError(f"an index of {list(self.layout.inputs)} is needed, not one of {list(inputs)}")
        return dict(zip(self.layout.outputs, self.layout.apply(**inputs), strict=True))

    def is_surjective(self) -> bool:
        """Whether every point is reached."""
        return self.layout.is_surjective()

    def is_injective(self) -> bool:
        """Whether every index has a point of its own."""
        return self.layout.is_injective()

    def is_invertible(self) -> bool:
        """Whether both of the above hold."""
        return self.is_surjective() and self.is_injective()

    def compose(self, outer: LinearLayout) -> LinearLayout:
        """The map `x -> outer(self(x))`."""
        return LinearLayout(outer.layout.compose(self.layout))

    def invert(self) -> LinearLayout:
        """The map from coordinates back to indices. Raises LayoutError unless the map is invertible."""
        return LinearLayout(self.layout.inverse())

    def pseudoinvert(self) -> LinearLayout:
        """A right inverse. Raises LayoutError unless the map is surjective."""
        return LinearLayout(self.layout.pseudo_inverse())

    def invert_and_compose(self, outer: LinearLayout) -> LinearLayout:
        """The map x -> y for which `outer(y) == self(x)`; free bits of `outer` are zero in y."""
        return LinearLayout(outer.layout.pseudo_inverse().compose(self.layout))

    def get_matrix_view(self) -> list[list[int]]:
        """The matrix over F2: a row per coordinate bit, a column per index bit, lowest bits of each dimension first."""
        columns = []
        for _, group in self.bases:
            for vector in group:
                bits: list[int] = []
                for value, extent in zip(vector, self.layout.shape, strict=True):
                    bits += [value >> bit & 1 for bit in range(extent.bit_length() - 1)]
                columns.append(bits)
        rows = sum(extent.bit_length() - 1 for extent in self.layout.shape)
        return [[column[row] for column in columns] for row in range(rows)]

    def get_distributed_view(self, use_hardware_view: bool) -> str:
        """The map, over register, lane, warp and block, as text: by tensor element or by warp."""
        return (display.hardware_view if use_hardware_view else display.tensor_view)(self.layout)

    def get_shared_view(self, use_hardware_view: bool) -> str:
        """The map, over offset and block, as text: in rows of the tensor or by offset."""
        return (display.shared_hardware_view if use_hardware_view else display.shared_tensor_view)(self.layout)

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        return LinearLayout(self.layout.concat(other.layout))

    def __str__(self) -> str:
        return str(self.layout)
