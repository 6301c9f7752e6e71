"""Linear maps over F2 from hardware index bits to tensor coordinates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from glueball.errors import LayoutError
from glueball.layouts import f2

Coordinates: TypeAlias = tuple[int, ...]
IndexArray: TypeAlias = NDArray[np.int64]
Difference: TypeAlias = tuple[dict[str, int], Coordinates | None, Coordinates | None]


def log2_exact(value: int, what: str) -> int:
    """The exponent of a power of two; `what` names the value in the error otherwise."""
    if value < 1 or value & (value - 1):
        raise LayoutError(f"{what} is {value}, which must be a power of two")
    return value.bit_length() - 1


@lru_cache(maxsize=4096)
def _table(columns: tuple[int, ...]) -> IndexArray:
    table = np.zeros(1, dtype=np.int64)
    for column in columns:
        table = np.concatenate([table, table ^ column])
    table.setflags(write=False)
    return table


@dataclass(frozen=True, slots=True)
class LinearLayout:
    """A linear map over F2: the image of an index is the XOR of the bases of its set bits.

    `inputs` names the index dimensions ("register", "lane", "warp", "block", or "offset", "block"), `columns` holds,
    for each of them, one basis per index bit, lowest bit first. A basis is one integer: the row-major flat index of
    its coordinates in `shape`, whose extents are powers of two named by `outputs`, first one most significant.
    Build one with `from_bases`.
    """

    inputs: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...]
    shape: tuple[int, ...]
    outputs: tuple[str, ...]

    @classmethod
    def from_bases(
        cls,
        bases: Mapping[str, Iterable[Sequence[int]]],
        shape: Sequence[int],
        outputs: Sequence[str] | None = None,
    ) -> LinearLayout:
        """Make a layout from coordinate bases, e.g. `{"lane": [[0, 1], [1, 0]]}` onto shape `[2, 2]`.

        Raises LayoutError where an extent is no power of two, or a basis has another rank or lies outside the shape.
        """
        extents = tuple(shape)
        names = tuple(outputs) if outputs is not None else default_outputs(len(extents))
        if len(names) != len(extents):
            raise LayoutError(f"{len(names)} output names given for a shape of rank {len(extents)}")
        shifts = _shifts(extents)
        columns = []
        for name, vectors in bases.items():
            column = []
            for vector in vectors:
                if len(vector) != len(extents):
                    raise LayoutError(f"{name} basis {list(vector)} must have {len(extents)} coordinates")
                for value, extent in zip(vector, extents, strict=True):
                    if not 0 <= value < extent:
                        raise LayoutError(f"{name} basis {list(vector)} lies outside the shape {list(extents)}")
                column.append(sum(value << shift for value, shift in zip(vector, shifts, strict=True)))
            columns.append(tuple(column))
        return cls(tuple(bases), tuple(columns), extents, names)

    @classmethod
    def from_flat_bases(
        cls, bases: Mapping[str, Iterable[int]], shape: Sequence[int], outputs: Sequence[str] | None = None
    ) -> LinearLayout:
        """As `from_bases`, with every basis given as the row-major flat index of its coordinates."""
        extents = tuple(shape)
        size = 1 << sum(_shifts_and_bits(extents)[1])
        columns = tuple(tuple(column) for column in bases.values())
        for name, column in zip(bases, columns, strict=True):
            for basis in column:
                if not 0 <= basis < size:
                    raise LayoutError(f"{name} basis {basis} lies outside the shape {list(extents)}")
        names = tuple(outputs) if outputs is not None else default_outputs(len(extents))
        return cls(tuple(bases), columns, extents, names)

    # -- what it is made of

    @property
    def bases(self) -> dict[str, list[list[int]]]:
        """Coordinate bases of every input dimension, lowest bit first."""
        return {
            name: [list(self.unflatten(basis)) for basis in column]
            for name, column in zip(self.inputs, self.columns, strict=True)
        }

    @property
    def elements(self) -> int:
        """Number of points of the output shape."""
        return math.prod(self.shape)

    def flat_bases(self, name: str) -> tuple[int, ...]:
        """Bases of one input dimension as flat indices; empty for a dimension that the layout does not have."""
        for own, column in zip(self.inputs, self.columns, strict=True):
            if own == name:
                return column
        return ()

    def bits(self, name: str) -> int:
        """Number of index bits of an input dimension."""
        return len(self.flat_bases(name))

    def size(self, name: str) -> int:
        """Number of index values of an input dimension."""
        return 1 << self.bits(name)

    def flatten(self, coordinates: Sequence[int]) -> int:
        """Row-major flat index of a point of the shape."""
        return sum(value << shift for value, shift in zip(coordinates, _shifts(self.shape), strict=True))

    def unflatten(self, index: int) -> Coordinates:
        """Coordinates of a row-major flat index."""
        shifts = _shifts(self.shape)
        return tuple((index >> shift) & (extent - 1) for shift, extent in zip(shifts, self.shape, strict=True))

    def coordinates(self, indices: IndexArray) -> list[IndexArray]:
        """Coordinates of many row-major flat indices, dimension by dimension."""
        shifts = _shifts(self.shape)
        return [indices >> shift & extent - 1 for shift, extent in zip(shifts, self.shape, strict=True)]

    def all_columns(self) -> tuple[int, ...]:
        """The bases of all input dimensions, one after another."""
        return tuple(basis for column in self.columns for basis in column)

    def split(self, mask: int) -> dict[str, int]:
        """Distribute a mask over `all_columns()` to the input dimensions."""
        values = {}
        for name, column in zip(self.inputs, self.columns, strict=True):
            values[name] = mask & ((1 << len(column)) - 1)
            mask >>= len(column)
        return values

    def shifts(self) -> tuple[int, ...]:
        """For each dimension of the shape, the position of its lowest bit in a flat index."""
        return _shifts(self.shape)

    # -- application

    def apply(self, **inputs: int) -> Coordinates:
        """Coordinates of one index; dimensions that are left out are zero."""
        return self.unflatten(self.apply_flat(**inputs))

    @overload
    def apply_flat(self, **inputs: int) -> int: ...
    @overload
    def apply_flat(self, **inputs: int | IndexArray) -> int | IndexArray: ...
    def apply_flat(self, **inputs: int | IndexArray) -> int | IndexArray:
        """Flat index of the image. Arrays broadcast against each other; dimensions that are left out are zero."""
        result: int | IndexArray = 0
        for name, value in inputs.items():
            if name not in self.inputs:
                raise LayoutError(f"the layout has no input dimension {name!r}, only {', '.join(self.inputs)}")
            column = self.flat_bases(name)
            if isinstance(value, int):
                if not 0 <= value < 1 << len(column):
                    raise LayoutError(f"{name} {value} is outside 0..{(1 << len(column)) - 1}")
                result = result ^ f2.apply(column, value)
            else:
                result = result ^ _table(column)[value]
        return result

    def table(self, name: str) -> IndexArray:
        """Flat images of every index of one input dimension, the others being zero; int64, read-only."""
        return _table(self.flat_bases(name))

    # -- construction from parts

    @classmethod
    def identity_1d(cls, size: int, name: str, output: str) -> LinearLayout:
        """The map of `size` indices onto as many coordinates, each onto itself."""
        return cls.strided_1d(size, 1, name, output)

    @classmethod
    def strided_1d(cls, size: int, stride: int, name: str, output: str) -> LinearLayout:
        """The map of `size` indices i to the coordinates i * stride, in an output of size * stride; powers of two."""
        bits, shift = log2_exact(size, "size"), log2_exact(stride, "stride")
        return cls((name,), (tuple(1 << (shift + bit) for bit in range(bits)),), (size * stride,), (output,))

    @classmethod
    def zeros_1d(cls, size: int, name: str, output: str, output_size: int = 1) -> LinearLayout:
        """The map of `size` indices to coordinate 0 of an output of `output_size`."""
        log2_exact(output_size, "output_size")
        return cls((name,), ((0,) * log2_exact(size, "size"),), (output_size,), (output,))

    def concat(self, other: LinearLayout) -> LinearLayout:
        """The direct sum: this map for the low bits of every index and coordinate, `other` for the bits above.

        Dimensions of the same name grow, others are appended.
        """
        inputs = tuple(dict.fromkeys((*self.inputs, *other.inputs)))
        own = dict(zip(self.outputs, self.shape, strict=True))
        theirs = dict(zip(other.outputs, other.shape, strict=True))
        sizes = {name: own.get(name, 1) * theirs.get(name, 1) for name in dict.fromkeys((*own, *theirs))}
        bases: dict[str, list[list[int]]] = {name: [] for name in inputs}
        for layout, scales in ((self, dict.fromkeys(sizes, 1)), (other, {name: own.get(name, 1) for name in sizes})):
            for name, vectors in layout.bases.items():
                for vector in vectors:
                    values = dict(zip(layout.outputs, vector, strict=True))
                    bases[name].append([values.get(output, 0) * scale for output, scale in scales.items()])
        return LinearLayout.from_bases(bases, tuple(sizes.values()), tuple(sizes))

    def divide_left(self, divisor: LinearLayout) -> LinearLayout | None:
        """The quotient q for which `divisor.concat(q)` is this map, over the same dimensions; None if there is none.

        That a map is divisible by a vector's identity says that the vector can be accessed in one piece.
        """
        if not set(divisor.inputs) <= set(self.inputs) or not set(divisor.outputs) <= set(self.outputs):
            return None
        low = dict(zip(divisor.outputs, divisor.shape, strict=True))
        if any(low.get(name, 1) > extent for name, extent in zip(self.outputs, self.shape, strict=True)):
            return None
        scales = [low.get(name, 1) for name in self.outputs]
        bases = {}
        for name, vectors in self.bases.items():
            high = vectors[divisor.bits(name) :]
            if any(value % scale for vector in high for value, scale in zip(vector, scales, strict=True)):
                return None
            bases[name] = [[value // scale for value, scale in zip(vector, scales, strict=True)] for vector in high]
        shape = [extent // scale for extent, scale in zip(self.shape, scales, strict=True)]
        quotient = LinearLayout.from_bases(bases, shape, self.outputs)
        padding = LinearLayout(
            self.inputs, tuple(() for _ in self.inputs), tuple(1 for _ in self.outputs), self.outputs
        )
        return quotient if padding.concat(divisor).concat(quotient) == self else None

    # -- renaming

    def reshape(self, shape: Sequence[int], outputs: Sequence[str] | None = None) -> LinearLayout:
        """The same points read, row by row, as those of another shape with as many elements."""
        extents = tuple(shape)
        names = tuple(outputs) if outputs is not None else default_outputs(len(extents))
        if sum(_shifts_and_bits(extents)[1]) != sum(_shifts_and_bits(self.shape)[1]) or len(names) != len(extents):
            raise LayoutError(f"cannot read a tensor of {list(self.shape)} as one of {list(extents)}")
        return LinearLayout(self.inputs, self.columns, extents, names)

    def reshape_inputs(self, bits: Mapping[str, int]) -> LinearLayout:
        """The same map over other input dimensions, given by their numbers of bits; the first takes the lowest bits."""
        columns = self.all_columns()
        if sum(bits.values()) != len(columns) or min(bits.values(), default=0) < 0:
            raise LayoutError(f"cannot divide {len(columns)} index bits into {dict(bits)}")
        taken = iter(columns)
        return LinearLayout(
            tuple(bits),
            tuple(tuple(next(taken) for _ in range(count)) for count in bits.values()),
            self.shape,
            self.outputs,
        )

    def flatten_outputs(self, output: str = "dim0") -> LinearLayout:
        """The same points as row-major flat indices."""
        return self.reshape((self.elements,), (output,))

    def flatten_inputs(self, name: str = "index") -> LinearLayout:
        """The same map over one input dimension, the bits of the first dimension lowest."""
        return self.reshape_inputs({name: len(self.all_columns())})

    def transpose(self, order: Sequence[int]) -> LinearLayout:
        """The map with its output dimensions reordered: dimension i of the result is dimension `order[i]` of this."""
        if sorted(order) != list(range(len(self.shape))):
            raise LayoutError(f"{list(order)} is not a permutation of the {len(self.shape)} dimensions")
        bases = {name: [[vector[axis] for axis in order] for vector in vectors] for name, vectors in self.bases.items()}
        names = [self.outputs[axis] for axis in order]
        return LinearLayout.from_bases(bases, [self.shape[axis] for axis in order], names)

    def transpose_inputs(self, names: Sequence[str]) -> LinearLayout:
        """The map with its input dimensions in another order."""
        if sorted(names) != sorted(self.inputs):
            raise LayoutError(f"{list(names)} is not a permutation of {list(self.inputs)}")
        return LinearLayout(tuple(names), tuple(map(self.flat_bases, names)), self.shape, self.outputs)

    def slice(self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None) -> LinearLayout:
        """The part of the map from some input dimensions (the others zero) to some of the coordinates."""
        names = self.inputs if inputs is None else tuple(inputs)
        kept = self.outputs if outputs is None else tuple(outputs)
        for name, known in [*((name, self.inputs) for name in names), *((name, self.outputs) for name in kept)]:
            if name not in known:
                raise LayoutError(f"the layout has no dimension {name!r}, only {', '.join(known)}")
        axes = [self.outputs.index(name) for name in kept]
        bases = self.bases
        parts = {name: [[vector[axis] for axis in axes] for vector in bases[name]] for name in names}
        return LinearLayout.from_bases(parts, [self.shape[axis] for axis in axes], kept)

    def resize(
        self, shape: Sequence[int], *, name: str = "register", order: Sequence[int] | None = None
    ) -> LinearLayout:
        """The map fitted to another shape of the same rank.

        Where the shape is smaller, coordinates wrap, so that a surjective map stays one. Where it is larger, index bits
        are appended to the input `name`, along the dimensions in `order` (by default the last one first).
        """
        extents = tuple(shape)
        if len(extents) != len(self.shape):
            raise LayoutError(f"a map onto {list(self.shape)} does not fit the rank of {list(extents)}")
        bases = {
            own: [[value % extent for value, extent in zip(vector, extents, strict=True)] for vector in vectors]
            for own, vectors in self.bases.items()
        }
        for axis in order if order is not None else reversed(range(len(extents))):
            extent = self.shape[axis]
            while extent < extents[axis]:
                bases.setdefault(name, []).append([extent if index == axis else 0 for index in range(len(extents))])
                extent *= 2
        return LinearLayout.from_bases(bases, extents, self.outputs)

    # -- algebra

    def is_trivial_over(self, names: Iterable[str]) -> bool:
        """Whether a map between index spaces leaves some dimensions alone.

        That is where each of them, an input and an output of one size, maps onto itself, and nothing else maps there.
        """
        for name in names:
            if name not in self.inputs or name not in self.outputs:
                return False
            axis = self.outputs.index(name)
            expected = [1 << bit for bit in range(self.shape[axis].bit_length() - 1)]
            own = self.bases[name]
            if [vector[axis] for vector in own] != expected or any(sum(vector) != vector[axis] for vector in own):
                return False
            if any(vector[axis] for other, vectors in self.bases.items() if other != name for vector in vectors):
                return False
        return True

    def is_injective(self) -> bool:
        """Whether every index has a point of its own: nothing is replicated."""
        return self.rank() == len(self.all_columns())

    def is_surjective(self) -> bool:
        """Whether every point of the shape is held somewhere."""
        return 1 << self.rank() == self.elements

    def rank(self) -> int:
        """Dimension of the image over F2."""
        return f2.rank(self.all_columns())

    def image(self) -> list[Coordinates]:
        """A reduced basis of the points that the map reaches."""
        return [self.unflatten(vector) for vector in f2.reduced(self.all_columns())]

    def kernel(self) -> list[dict[str, int]]:
        """A basis of the indices that map to zero."""
        return [self.split(mask) for mask in f2.kernel(self.all_columns())]

    def free_variables(self) -> dict[str, int]:
        """Per input dimension, the mask of the bits that only replicate, given the bits before them.

        The indices whose free bits are zero hold every point of the image exactly once.
        """
        span = f2.Echelon()
        masks = {}
        for name, column in zip(self.inputs, self.columns, strict=True):
            masks[name] = sum(1 << bit for bit, basis in enumerate(column) if not span.add(basis))
        return masks

    def compose(self, inner: LinearLayout) -> LinearLayout:
        """The map `x -> self(inner(x))`; the outputs of `inner` are inputs of this layout, by name."""
        for name, extent in zip(inner.outputs, inner.shape, strict=True):
            if extent > self.size(name):
                raise LayoutError(f"cannot compose: {name} has {extent} values but only {self.size(name)} are accepted")
        targets = [self.flat_bases(name) for name in inner.outputs]
        columns = []
        for column in inner.columns:
            images = []
            for basis in column:
                image = 0
                for target, value in zip(targets, inner.unflatten(basis), strict=True):
                    image ^= f2.apply(target, value)
                images.append(image)
            columns.append(tuple(images))
        return LinearLayout(inner.inputs, tuple(columns), self.shape, self.outputs)

    def inverse(self) -> LinearLayout:
        """The map from coordinates back to indices. Raises LayoutError unless the map is one to one and onto."""
        if not self.is_injective():
            raise LayoutError(f"the layout replicates elements and has no inverse:\n{self}")
        return self.pseudo_inverse()

    def pseudo_inverse(self) -> LinearLayout:
        """A right inverse: for each point the index that holds it and has only zero free bits.

        Raises LayoutError unless the map is onto.
        """
        span = f2.Echelon(self.all_columns())
        sizes = tuple(1 << len(column) for column in self.columns)
        shifts = _shifts(sizes)
        columns = []
        for shift, bits in zip(*_shifts_and_bits(self.shape), strict=True):
            column = []
            for bit in range(bits):
                mask = span.solve(1 << (shift + bit))
                if mask is None:
                    raise LayoutError(f"the layout is expected to be surjective onto {list(self.shape)}:\n{self}")
                column.append(sum(v << s for v, s in zip(self.split(mask).values(), shifts, strict=True)))
            columns.append(tuple(column))
        return LinearLayout(self.outputs, tuple(columns), sizes, self.inputs)

    def first_difference(self, other: LinearLayout) -> Difference | None:
        """The first index at which two maps differ, with both images; None where the maps are equal.

        An image is None where that map has no such index (it has fewer bits, or no such dimension).
        """
        if self.shape != other.shape:
            raise LayoutError(f"layouts of the shapes {list(self.shape)} and {list(other.shape)} do not compare")
        for name in dict.fromkeys((*self.inputs, *other.inputs)):
            own, theirs = self.flat_bases(name), other.flat_bases(name)
            for bit in range(max(len(own), len(theirs))):
                first = own[bit] if bit < len(own) else None
                second = theirs[bit] if bit < len(theirs) else None
                if first != second:
                    return (
                        {name: 1 << bit},
                        None if first is None else self.unflatten(first),
                        None if second is None else other.unflatten(second),
                    )
        return None

    def __str__(self) -> str:
        width = max((len(name) for name in self.inputs), default=0)
        lines = []
        for name, vectors in self.bases.items():
            text = " ".join("(" + ",".join(map(str, vector)) + ")" for vector in vectors)
            lines.append(f"{name:<{width}}  {text or '-'}")
        extents = ", ".join(f"{name}: {extent}" for name, extent in zip(self.outputs, self.shape, strict=True))
        return "\n".join([*lines, f"onto [{extents}]"])


def default_outputs(rank: int) -> tuple[str, ...]:
    """The names of tensor dimensions: dim0, dim1, ..."""
    return tuple(f"dim{axis}" for axis in range(rank))


@lru_cache(maxsize=4096)
def _shifts_and_bits(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    bits = tuple(
        log2_exact(extent, f"extent of dimension {axis} of {list(shape)}") for axis, extent in enumerate(shape)
    )
    return tuple(sum(bits[axis + 1 :]) for axis in range(len(bits))), bits


def _shifts(shape: tuple[int, ...]) -> tuple[int, ...]:
    return _shifts_and_bits(shape)[0]
