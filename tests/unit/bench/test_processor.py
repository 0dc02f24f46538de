"""Whose CPU time a benchmark counts."""

from __future__ import annotations

import subprocess
import sys
import time

from bench.processor import ProcessorTime

BURN = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\ninput()"


def test_work_of_a_child_process_counts() -> None:
    """CPU time that a child spends inside the block is in the sum, though this process idles."""
    own = time.process_time()
    with ProcessorTime() as processor:
        child = subprocess.Popen([sys.executable, "-c", BURN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
    own = time.process_time() - own
    child.communicate(b"\n")
    assert processor.seconds - own > 0.2
