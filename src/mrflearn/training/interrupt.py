"""Ctrl-C as a request: the first ends training in good order, the second interrupts for real."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import final


@final
@dataclass
class Interrupt:
    """Whether the user has asked to stop."""

    asked: bool = False


@contextmanager
def interruptible(*, announce: bool = False) -> Iterator[Interrupt]:
    """An `Interrupt` that Ctrl-C sets; what Ctrl-C did before is put back at the end.

    Outside the main thread Python allows no signal handlers, and where Ctrl-C is ignored or
    handled by someone else it stays so: then the interrupt is never set here.
    """
    interrupt = Interrupt()
    before = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    if not here or before is not signal.default_int_handler:
        yield interrupt
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if interrupt.asked:
            signal.default_int_handler(number, frame)
        interrupt.asked = True
        if announce:  # unbuffered, as a handler may run in the middle of another write
            os.write(2, b"\nstopping after this evaluation; Ctrl-C again stops at once\n")

    signal.signal(signal.SIGINT, ask)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
