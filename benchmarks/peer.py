"""The same kernels for the peer: the source of a kernel module with only its import lines changed."""

from __future__ import annotations

import importlib.util
import inspect
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from glueball.kernels import copy
from glueball.language import BlockedLayout

IMPORTS = {
    "import glueball\n": "from triton.experimental import gluon as glueball\n",
    "import glueball.language as gl\n": "from triton.experimental.gluon import language as gl\n",
}


def peer_module() -> ModuleType | None:
    """The copy kernels as Gluon kernels; None where Triton with Gluon is not installed."""
    try:
        importlib.import_module("triton.experimental.gluon")
    except ImportError:
        return None
    return translated(inspect.getsource(copy), "gluon_copy")


def translated(source: str, name: str) -> ModuleType:
    """A module of the peer's made from a module of ours."""
    for ours, theirs in IMPORTS.items():
        source = source.replace(ours, theirs)
    path = Path(tempfile.mkdtemp()) / f"{name}.py"
    path.write_text(source)
    specification = importlib.util.spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def peer_keywords(keywords: dict[str, Any]) -> dict[str, Any]:
    """Launch keywords with the peer's layout classes."""
    from triton.experimental.gluon import language

    return {
        name: language.BlockedLayout(
            list(value.size_per_thread), list(value.threads_per_warp), list(value.warps_per_cta), list(value.order)
        )
        if isinstance(value, BlockedLayout)
        else value
        for name, value in keywords.items()
    }
