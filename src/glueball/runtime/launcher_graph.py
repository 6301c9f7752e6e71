"""What lets the native launcher repeat a variant's launch through a graph: words that its code and Python share."""

from __future__ import annotations

import ctypes

from glueball.drivers.launch_graph import LaunchGraph
from glueball.runtime.launcher_table import GraphSource

GRAPH_AFTER = 32
"""Launches of a variant by the driver's ordinary function before it gets a graph."""

_ACTIVE = 0
_STATE, _EXECUTABLE, _NODE, _HOME_STREAM = range(4)

_CAPTURING_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))


class GraphSwitch:
    """The graph words of one variant, as `launcher_enqueue_ir` lists them; owns the graph.

    The native code calls it when a graph is due, with the stream in its word and the state off, so that nobody else
    does meanwhile.
    """

    __slots__ = ("_given", "_graph", "_source", "words")

    def __init__(self, source: GraphSource, argument_count: int) -> None:
        functions = source.functions
        self._source = source
        self._graph: LaunchGraph | None = None
        self._given = (ctypes.c_int64 * (3 + argument_count))()
        self.words = (ctypes.c_int64 * 11)(
            GRAPH_AFTER + 1, 0, 0, 0, 0, functions.set_parameters, functions.launch, functions.is_capturing, id(self),
            ctypes.addressof(self._given), 0,
        )  # fmt: skip

    def __call__(self) -> None:
        """Makes the graph, with the stream of this launch as its home; later if that one is being captured."""
        words = self.words
        if self._is_capturing(words[_HOME_STREAM]):
            words[_STATE] = GRAPH_AFTER
            return
        self._graph = self._source.make()
        if self._graph is not None:
            words[_EXECUTABLE], words[_NODE] = self._graph.executable, self._graph.node
            words[_STATE] = _ACTIVE

    def _is_capturing(self, stream: int) -> bool:
        status = ctypes.c_int()
        failed = _CAPTURING_TYPE(self._source.functions.is_capturing)(stream, ctypes.byref(status))
        return bool(failed or status.value)
