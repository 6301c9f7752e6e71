"""The lock of everything that is compiled in this process."""

from __future__ import annotations

import os
import threading

COMPILATION = threading.RLock()
"""Held while anything is compiled.

LLVM works for one thread at a time, and a child that was forked while another thread compiled would find LLVM's own
locks held for ever; so a fork waits for this one.
"""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=COMPILATION.acquire, after_in_parent=COMPILATION.release, after_in_child=COMPILATION.release
    )
